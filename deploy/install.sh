#!/bin/sh
# Installs the dashboard for a server. Usage, in the project's folder:
#
#     KERNELS=FOLDER sh deploy/install.sh PYTHON
#
# TORCH_INDEX: an index with builds of PyTorch for the CPU alone; the usual one if it is empty.
# KERNELS: an absolute folder for the codec's compiled kernels, from which start.sh takes them.
set -eu
: "${KERNELS:?an absolute folder for the compiled kernels}"

"$1" -m pip install --no-cache-dir ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} \
    "$(grep '^torch==' requirements.txt)"
"$1" -m pip install --no-cache-dir -r requirements.txt
"$1" -m pip install --no-cache-dir --no-deps .
cd /
NUMBA_CACHE_DIR="$KERNELS" "$1" -c "import codec; codec.warm_up()"
