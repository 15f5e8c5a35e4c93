#!/usr/bin/env bash
# `make demo` runs this script. It scans and captures the faulty decoder layer, then the repaired layer.
set -u
cd "$(dirname "$0")/.." || exit
PATH="$PWD/.venv/bin:$PATH"

say() { printf '\n' && printf '%s\n' "$@"; }

# shows CODE COMMAND...: run a command whose exit code must be CODE. A scan of the faulty layer has to exit with 1.
shows() {
    local expected=$1 code=0
    shift
    printf '\n$ %s\n\n' "$*"
    "$@" || code=$?
    if [ "$code" -ne "$expected" ]; then
        printf '\nThe demo expected exit code %s, but graphsafe gave %s.\n' "$expected" "$code" >&2
        exit 1
    fi
}

say "1. scan reads a decoder layer with a KV cache and a mixture of experts, as it is first written. It imports and runs" \
    "   nothing. Each finding names the line, the calls that make it hot, why it breaks a CUDA graph, and a repair."
shows 1 graphsafe scan examples/decoder_bad.py examples/decoder_bad_ops.py

say "2. The same result as a JSON report. \`graphsafe report\` converts it into other formats."
shows 1 graphsafe scan examples/decoder_bad.py examples/decoder_bad_ops.py --format json -o graphsafe-scan.json
shows 0 graphsafe report graphsafe-scan.json --format concise

say "3. The same layer, repaired."
shows 0 graphsafe scan examples/decoder_good.py examples/decoder_good_ops.py

say "4. capture runs a step of each layer on the first GPU or, without a GPU, on the simulated device. The report" \
    "   says which. The faulty layer is not ready; scan's predictions are confirmed or refuted line by line."
shows 1 graphsafe capture examples/decoder_bad.py:build_layer -o graphsafe-bad.json

say "5. The repaired layer is captured, replayed on changed inputs, and compared with an independent eager reference."
shows 0 graphsafe capture examples/decoder_good.py:build_layer -o graphsafe-good.json

say "Written files: graphsafe-scan.json, graphsafe-bad.json, graphsafe-good.json."
