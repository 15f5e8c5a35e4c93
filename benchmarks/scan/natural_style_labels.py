"""Compare the labels of scan's corpus of small modules with the oracle and with `graphsafe capture`.

python benchmarks/scan/natural_style_labels.py --device none --out FOLDER  # a GPU; only the oracle is asked
python benchmarks/scan/natural_style_labels.py --device sim --no-oracle  # a machine without; a module takes seconds
python benchmarks/scan/natural_style_labels.py untouched --device none  # the part that is kept apart
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.gpu.agreement import carry_out, parser
from tests.gpu.hazards import PARTS, hazards

if __name__ == "__main__":
    made = parser(__doc__)
    made.add_argument("corpus", nargs="?", choices=PARTS, default="frozen")
    options = made.parse_args()
    cases = [hazard.case for hazard in hazards(options.corpus) if hazard.simulated or options.device != "sim"]
    carry_out(cases, options, f"scan-corpus-{options.corpus}", together=8)
