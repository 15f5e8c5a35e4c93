"""Compare the oracle with `graphsafe capture` on the small modules of tests/gpu, and show where they disagree.

python benchmarks/capture/small_modules.py --out FOLDER                    # a GPU with 16 cores: five minutes
python benchmarks/capture/small_modules.py --device sim --no-oracle        # a machine without; a module takes seconds
python benchmarks/capture/small_modules.py --no-oracle --repeat 30 --only graph_convolution,splatted_grid
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.gpu.agreement import carry_out, parser
from tests.gpu.catalogue import modules

if __name__ == "__main__":
    options = parser(__doc__).parse_args()
    cases = [module.case for module in modules() if module.simulated or options.device != "sim"]
    carry_out(cases, options, "capture-modules")
