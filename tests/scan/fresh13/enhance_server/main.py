"""Cleans the sound of several callers, frame by frame, on one graph."""

import queue
import threading

import torch
from runner import Runner
from sessions import Session, microphone


def speak(session, seed, frames, inbox):
    for pcm in microphone(seed, frames):
        inbox.put((session, pcm))
    inbox.put((session, None))


def serve(runner, inbox, callers):
    while callers:
        session, pcm = inbox.get()
        if pcm is None:
            callers -= 1
            continue
        clean = runner.process(session, pcm)
        session.cleaned.append(clean.cpu().numpy()[0])


@torch.inference_mode()
def main():
    torch.manual_seed(3)
    runner = Runner()
    runner.capture()
    sessions = [Session("front"), Session("garden"), Session("desk")]
    inbox = queue.Queue(maxsize=16)
    threads = [
        threading.Thread(target=speak, args=(session, seed, 20, inbox), daemon=True)
        for seed, session in enumerate(sessions)
    ]
    for thread in threads:
        thread.start()
    serve(runner, inbox, len(sessions))
    for thread in threads:
        thread.join()
    print({session.name: len(session.sound()) for session in sessions})


if __name__ == "__main__":
    main()
