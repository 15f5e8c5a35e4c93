#!/usr/bin/env bash
# What `make demo` shows: the broken decoder layer and the repaired one, first read, then run.
set -u
cd "$(dirname "$0")/.." || exit
PATH="$PWD/.venv/bin:$PATH"

say() { printf '\n' && printf '%s\n' "$@"; }

# shows CODE COMMAND...: a scan of the broken layer must find something (1), so 1 is no failure of the demo.
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

say "2. The same as a JSON report, for machines; \`graphsafe report\` turns it into other forms."
shows 1 graphsafe scan examples/decoder_bad.py examples/decoder_bad_ops.py --format json -o graphsafe-scan.json
shows 0 graphsafe report graphsafe-scan.json --format concise

say "3. The same layer, repaired."
shows 0 graphsafe scan examples/decoder_good.py examples/decoder_good_ops.py

say "4. capture runs one step of each: on the first GPU, or on the simulated device where there is none, and says which." \
    "   The broken layer is not ready; scan's predictions are confirmed or refuted line by line."
shows 1 graphsafe capture examples/decoder_bad.py:build_layer -o graphsafe-bad.json

say "5. The repaired layer is captured, replayed on changed inputs, and compared with an independent eager reference."
shows 0 graphsafe capture examples/decoder_good.py:build_layer -o graphsafe-good.json

say "Written beside: graphsafe-scan.json, graphsafe-bad.json, graphsafe-good.json."
