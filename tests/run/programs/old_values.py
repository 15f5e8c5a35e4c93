"""Graphs that go on with old values, numbers or results; each faulty line says so. Sound code stands beside."""

import torch


def ones(rows=4):
    return torch.ones(rows, 8, device="cuda")


class Step:
    """A graph that scales its input."""

    def __init__(self):
        self.x = ones()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self.x * 2

    def __call__(self):
        self.graph.replay()
        return self.out


def refilled(step):
    stage = torch.empty(4, 8, pin_memory=True)
    for value in range(4):
        stage.fill_(value)  # expect: GS714
        step.x.copy_(stage, non_blocking=True)
        step()


def refilled_after_upload(step):
    stage = torch.empty(4, 8, pin_memory=True)
    for value in range(4):
        stage.copy_(torch.full((4, 8), float(value)))  # expect: GS714
        step.x.copy_(stage.to("cuda", non_blocking=True))
        step()


def refilled_too_early(step):
    """The event was recorded before the copy."""
    stage, copied = torch.empty(4, 8, pin_memory=True), torch.cuda.Event()
    for value in range(4):
        copied.synchronize()
        stage.fill_(value)  # expect: GS714
        copied.record()
        step.x.copy_(stage, non_blocking=True)
        step()


def uploaded_to_a_slot(step):
    """Nothing orders the upload after the copy that takes the slot's last content."""
    stage, slot, uploads = torch.empty(4, 8, pin_memory=True), ones(), torch.cuda.Stream()
    for value in range(4):
        uploads.synchronize()
        stage.fill_(value)
        with torch.cuda.stream(uploads):
            slot.copy_(stage, non_blocking=True)  # expect: GS714
        torch.cuda.current_stream().wait_stream(uploads)
        step.x.copy_(slot)
        step()


def uploaded_in_turn(step):
    stage, slot, uploads = torch.empty(4, 8, pin_memory=True), ones(), torch.cuda.Stream()
    for value in range(4):
        uploads.synchronize()
        stage.fill_(value)
        uploads.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(uploads):
            slot.copy_(stage, non_blocking=True)
        torch.cuda.current_stream().wait_stream(uploads)
        step.x.copy_(slot)
        step()


def waited_for(step):
    stage, copied = torch.empty(4, 8, pin_memory=True), torch.cuda.Event()
    for value in range(4):
        copied.synchronize()
        stage.fill_(value)
        step.x.copy_(stage, non_blocking=True)
        copied.record()
        step()


def two_buffers(step):
    """Two halves of one allocation, each with its event."""
    ring = torch.empty(2, 4, 8, pin_memory=True)
    copied = [torch.cuda.Event(), torch.cuda.Event()]
    for value in range(6):
        copied[value % 2].synchronize()
        ring[value % 2].fill_(value)
        step.x.copy_(ring[value % 2], non_blocking=True)
        copied[value % 2].record()
        step()


def read_each_time(step):
    stage = torch.empty(4, 8, pin_memory=True)
    total = 0.0
    for value in range(4):
        stage.fill_(value)
        step.x.copy_(stage, non_blocking=True)
        total += step().sum().item()
    return total


def waits_by_another_copy(step):
    """A copy of pageable memory that may block waits for the stream."""
    stage, labels = torch.empty(4, 8, pin_memory=True), torch.zeros(4)
    target = torch.zeros(4, device="cuda")
    for value in range(4):
        stage.fill_(value)
        step.x.copy_(stage, non_blocking=True)
        step()
        target.copy_(labels)


def copied_on_a_side_stream(step):
    stage, side = torch.empty(4, 8, pin_memory=True), torch.cuda.Stream()
    for value in range(4):
        side.synchronize()
        stage.fill_(value)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            step.x.copy_(stage, non_blocking=True)
        torch.cuda.current_stream().wait_stream(side)
        step()


def new_memory_each_time(step):
    for value in range(4):
        step.x.copy_(torch.full((4, 8), float(value)).pin_memory(), non_blocking=True)
        step()


def fetched_and_sent(step):
    """The device fills the pinned memory, in the order of the stream."""
    stage = torch.empty(4, 8, pin_memory=True)
    for _ in range(4):
        stage.copy_(step(), non_blocking=True)
        step.x.copy_(stage, non_blocking=True)


class Layer:
    def __init__(self, weight):
        self.weight = weight
        self.x = ones()

    def __call__(self):
        return self.x * self.weight


class Server:
    def __init__(self, layer):
        self.layer = layer
        self.graph = torch.cuda.CUDAGraph()
        self.capture()

    def capture(self):
        with torch.cuda.graph(self.graph):
            self.out = self.layer()


class Rebound(Server):
    def capture(self):
        with torch.cuda.graph(self.graph):  # expect: GS711
            self.out = self.layer()


def versions():
    return [torch.full((8,), float(value), device="cuda") for value in (1, 2, 3)]


def swapped_in_a_bank():
    bank = versions()
    server = Rebound(Layer(bank[0]))
    for weight in bank:
        server.layer.weight = weight
        server.graph.replay()


def loaded_beside_the_old_one():
    """The old weight is kept to go back to."""
    layer = Layer(torch.ones(8, device="cuda"))
    server = Rebound(layer)
    server.graph.replay()
    state = {"weight": layer.weight}
    layer.weight = torch.full((8,), 3.0).to("cuda")  # expect: GS711
    server.graph.replay()
    return state


class Masked:
    def __init__(self):
        self.x, self.graph = ones(8), torch.cuda.CUDAGraph()
        self.state = ones(8)

    def capture(self):
        mask = torch.zeros(8, 8, device="cuda")  # expect: GS711
        with torch.cuda.graph(self.graph):
            self.out = self.x + mask

    def carried(self):
        self.state = self.state * 0.5 + self.x  # expect: GS711

    def capture_carried(self):
        with torch.cuda.graph(self.graph):
            self.carried()


def a_variable_that_the_graph_outlives():
    masked = Masked()
    masked.capture()
    for _ in range(3):
        masked.graph.replay()


def a_state_that_the_capture_rebinds():
    masked = Masked()
    masked.capture_carried()
    for _ in range(3):
        masked.graph.replay()


def copied_into_place():
    bank = versions()
    server = Server(Layer(torch.ones(8, device="cuda")))
    for weight in bank:
        server.layer.weight.copy_(weight)
        server.graph.replay()


def averaged_and_put_back():
    """The average is evaluated eagerly, and the weight is back before the next replay."""
    weight = torch.ones(8, device="cuda")
    average = weight.clone()
    server = Server(Layer(weight))
    for _ in range(3):
        server.graph.replay()
        average.lerp_(weight, 0.5)
        server.layer.weight = average
        server.layer()
        server.layer.weight = weight
        server.graph.replay()


def eager_for_other_adapters():
    """There is a graph for the first adapter alone, and the others run without one."""
    bank = versions()
    server = Server(Layer(bank[0]))
    server.graph.replay()
    for weight in bank[1:]:
        server.layer.weight = weight
        server.layer()
        server.graph.replay()  # a request of the first adapter


def a_graph_each():
    bank, layer = versions(), Layer(None)
    servers = []
    for weight in bank:
        layer.weight = weight
        servers.append(Server(layer))
        servers[-1].graph.replay()
    for server in servers:
        server.graph.replay()


def a_weight_for_the_capture_alone():
    bank = versions()
    layer = Layer(bank[0])
    server = Server(layer)
    layer.weight = bank[1]
    server.graph.replay()
    server.graph.replay()


def the_same_values():
    bank = [torch.ones(8, device="cuda") for _ in range(3)]
    server = Server(Layer(bank[0]))
    for weight in bank:
        server.layer.weight = weight
        server.graph.replay()


def old_version_until_the_next_capture():
    """Requests under way end with the old weight; then a graph is captured for the new one."""
    bank = versions()
    layer = Layer(bank[0])
    server = Server(layer)
    server.graph.replay()
    layer.weight = bank[1]
    server.graph.replay()
    server.graph.replay()
    later = Server(layer)
    later.graph.replay()


def ping_pong():
    """Two states in turn, and a graph for each direction."""
    layer = Layer(None)
    states = [ones(), ones()]
    graphs = [torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()]
    for turn, graph in enumerate(graphs):
        layer.old, layer.new = states[turn], states[1 - turn]
        with torch.cuda.graph(graph):
            layer.new.copy_(layer.old + 1)
    for turn in range(6):
        graphs[turn % 2].replay()


def a_cursor_over_inputs():
    """The graph reads one input; the attribute names the one that is filled."""
    layer = Layer(None)
    inputs = [ones(), ones()]
    layer.filling = inputs[0]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        layer.out = inputs[0] * 3
    for turn in range(4):
        layer.filling = inputs[turn % 2]
        layer.filling.fill_(turn)
        if turn % 2:
            inputs[0].copy_(inputs[1])
        graph.replay()


class Filler:
    """A graph that fills a buffer which is handed to it."""

    def __init__(self, out, scale, read=False):
        self.x, self.out = ones(), out
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            if read:
                self.out.copy_(self.out + self.x * scale)
            else:
                self.out.copy_(self.x * scale)

    def __call__(self):
        self.graph.replay()
        return self.out


def one_buffer_for_two():
    buffer = torch.zeros(4, 8, device="cuda")
    draft, target = Filler(buffer, 2), Filler(buffer, 3)
    total = torch.zeros((), device="cuda")
    for _ in range(3):
        guess = draft()
        truth = target()  # expect: GS706
        total += (guess / truth).sum()
    return total


def used_up_before():
    buffer = torch.zeros(4, 8, device="cuda")
    draft, target = Filler(buffer, 2), Filler(buffer, 3)
    total = torch.zeros((), device="cuda")
    for _ in range(3):
        guess = draft()
        total += guess.sum()
        truth = target()
        total += truth.sum()
    return total


def halves_of_one_buffer():
    buffer = torch.zeros(8, 8, device="cuda")
    draft, target = Filler(buffer[:4], 2), Filler(buffer[4:], 3)
    guess = draft()
    truth = target()
    return (guess / truth).sum()


def refined_in_place():
    """The second graph reads what the first one wrote: the first name means the refined result too."""
    buffer = torch.zeros(4, 8, device="cuda")
    first, second = Filler(buffer, 2), Filler(buffer, 3, read=True)
    rough = first()
    fine = second()
    return (rough * fine).sum()


def copied_before():
    buffer = torch.zeros(4, 8, device="cuda")
    draft, target = Filler(buffer, 2), Filler(buffer, 3)
    guess = draft().clone()
    truth = target()
    return (guess / truth).sum()


def filled_again_by_its_own():
    buffer = torch.zeros(4, 8, device="cuda")
    draft, target = Filler(buffer, 2), Filler(buffer, 3)
    guess = draft()
    truth = target()
    total = truth.sum()
    draft.graph.replay()
    return total + guess.sum()


def one_input_for_two():
    """Two graphs read one input by design."""
    shared = ones()
    graphs = [torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()]
    outs = []
    for graph in graphs:
        with torch.cuda.graph(graph):
            outs.append(shared * len(outs))
    for value in range(4):
        shared.fill_(value)
        for graph in graphs:
            graph.replay()
    return outs[0].sum() + outs[1].sum()


class Rule:
    def __init__(self, rate):
        self.rate = rate
        self.count = 0
        self.window = 4

    def apply(self, x):
        return x.sub_(x * self.rate)

    def counted(self, x):
        here = x > self.count
        return x * here

    def attend(self, x):
        rows = x[: self.window]
        return rows.sum(0)

    def with_a_literal(self, x):
        return x * 1 + self.table[self.count] * 0.5


class Model:
    def __init__(self, rule):
        self.rule, self.x = rule, ones(8)

    def update(self, how):
        return getattr(self.rule, how)(self.x)


def captured(model, how):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model.update(how)
    return graph


def captured_too_early(model, how):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # expect: GS713
        model.update(how)
    return graph


def a_rate_that_decays():
    model = Model(Rule(0.25))
    graph = captured_too_early(model, "apply")
    for _ in range(3):
        graph.replay()
        model.rule.rate *= 0.5


def a_count_that_grows():
    model = Model(Rule(0.25))
    model.rule.count = 5
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # expect: GS713
        model.update("counted")
    for _ in range(3):
        graph.replay()
        model.rule.count += 1


def a_window_that_grows():
    model = Model(Rule(0.25))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # expect: GS713
        model.update("attend")
    for window in (4, 6):
        model.rule.window = window
        graph.replay()


TEMPERATURE = 0.7


def a_global_that_changes():
    global TEMPERATURE
    x, graph = ones(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # expect: GS713
        x.div_(TEMPERATURE)
    graph.replay()
    TEMPERATURE = 0.9
    graph.replay()


def a_rate_that_is_set_again():
    model = Model(Rule(0.25))
    graph = captured(model, "apply")
    for _ in range(3):
        model.rule.rate = 0.5 / 2
        graph.replay()


def a_window_that_shrinks():
    model = Model(Rule(0.25))
    graph = captured(model, "attend")
    for window in (4, 2, 3):
        model.rule.window = window
        graph.replay()


def a_graph_for_each_rate():
    model = Model(Rule(0.25))
    graphs = {}
    for rate in (0.25, 0.5, 0.75):
        model.rule.rate = rate
        graphs[rate] = captured(model, "apply")
        graphs[rate].replay()
    for rate in (0.25, 0.75, 0.5):
        graphs[rate].replay()


def a_rate_for_the_capture_alone():
    model = Model(Rule(0.25))
    graphs = {}
    for rate in (0.5, 0.75):
        model.rule.rate = rate
        graphs[rate] = captured(model, "apply")
        model.rule.rate = 0.25
    for _ in range(2):
        for graph in graphs.values():
            graph.replay()


def other_rates_run_eagerly():
    model = Model(Rule(0.25))
    graph = captured(model, "apply")
    graph.replay()
    for rate in (0.5, 0.25, 0.75):
        model.rule.rate = rate
        model.update("apply")
        graph.replay()  # a request with the first rate


def captured_again_for_a_new_rate():
    model = Model(Rule(0.25))
    for rate in (0.25, 0.5):
        model.rule.rate = rate
        graph = captured(model, "apply")
        graph.replay()
        graph.replay()


def a_count_of_the_host():
    """The count chooses an element of a list, and no operation is given it."""
    model = Model(Rule(0.25))
    model.rule.table = [0.5] * 8
    model.rule.count = 1
    graph = captured(model, "with_a_literal")
    for _ in range(3):
        graph.replay()
        model.rule.count += 1


def a_position_in_a_table():
    """An index of a tensor is frozen, though the count has the value of a literal."""
    model = Model(Rule(0.25))
    model.rule.table = ones(8)
    model.rule.count = 1
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # expect: GS713
        model.update("with_a_literal")
    for _ in range(3):
        graph.replay()
        model.rule.count += 1


class Buckets:
    def __init__(self):
        self.x, self.graphs = ones(8), {}

    def sum(self, rows):
        return self.x[:rows].sum()

    def padded(self, batch, size):
        self.x[: len(batch)].copy_(batch)
        self.x[len(batch) : size].zero_()
        self.graphs[size].replay()


def sizes_that_are_never_chosen():
    buckets = Buckets()
    for rows in (8, 4, 2):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):  # expect: GS618
            out = buckets.sum(rows)
        buckets.graphs[rows] = graph, out
    for rows in (2, 3, 4, 2, 5):
        buckets.x[:rows].copy_(ones(rows))
        buckets.graphs[8 if rows > 3 else 4][0].replay()


def sizes_that_nobody_asked_for():
    buckets = Buckets()
    for rows in (8, 4, 2):
        buckets.graphs[rows] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(buckets.graphs[rows]):
            buckets.out = buckets.sum(rows)
    for rows in (3, 4, 5, 7, 3):
        buckets.padded(ones(rows), 8 if rows > 4 else 4)


def a_first_row_of_its_own():
    """Each input is filled in two parts, of which the first has the size of a graph."""
    buckets = Buckets()
    for rows in (8, 4, 1):
        buckets.graphs[rows] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(buckets.graphs[rows]):
            buckets.out = buckets.sum(rows)
    for rows in (3, 4, 5, 8, 2):
        buckets.x[:1].copy_(ones(1))
        buckets.x[1:rows].copy_(ones(rows - 1))
        buckets.graphs[8 if rows > 4 else 4].replay()


def a_path_that_grows(step):
    path = ones(1)
    for _ in range(20):
        path = torch.cat([path, step()[:1]])  # expect: GS402
    return path


def a_path_of_full_length(step):
    path = ones(20)
    for at in range(20):
        path[at].copy_(step()[0])
    return path


def joined_once(step):
    return torch.cat([step()[:1].clone() for _ in range(20)])


def main():
    step = Step()
    for run in (refilled, refilled_after_upload, refilled_too_early, waited_for, two_buffers, read_each_time):
        run(step)
        torch.cuda.synchronize()
    for run in (uploaded_to_a_slot, uploaded_in_turn, a_path_that_grows, a_path_of_full_length, joined_once):
        run(step)
        torch.cuda.synchronize()
    for run in (waits_by_another_copy, copied_on_a_side_stream, new_memory_each_time, fetched_and_sent):
        run(step)
        torch.cuda.synchronize()
    swapped_in_a_bank()
    loaded_beside_the_old_one()
    a_variable_that_the_graph_outlives()
    a_state_that_the_capture_rebinds()
    copied_into_place()
    averaged_and_put_back()
    eager_for_other_adapters()
    a_graph_each()
    a_weight_for_the_capture_alone()
    the_same_values()
    old_version_until_the_next_capture()
    ping_pong()
    a_cursor_over_inputs()
    one_buffer_for_two()
    used_up_before()
    halves_of_one_buffer()
    refined_in_place()
    copied_before()
    filled_again_by_its_own()
    one_input_for_two()
    a_rate_that_decays()
    a_count_that_grows()
    a_window_that_grows()
    a_global_that_changes()
    a_rate_that_is_set_again()
    a_window_that_shrinks()
    a_graph_for_each_rate()
    a_rate_for_the_capture_alone()
    other_rates_run_eagerly()
    captured_again_for_a_new_rate()
    a_count_of_the_host()
    a_position_in_a_table()
    sizes_that_are_never_chosen()
    sizes_that_nobody_asked_for()
    a_first_row_of_its_own()
    print("done")


if __name__ == "__main__":
    main()
