#!/bin/sh
# Installs the dashboard for a server: deploy/install.sh PYTHON, in the project's folder.
#
# TORCH_INDEX: an index with builds of PyTorch for the CPU alone; the usual one if it is empty.
# The kernels are compiled now: a server on a read-only disk could not keep them, and would compile
# for as long at every start.
set -eu

"$1" -m pip install --no-cache-dir ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} \
    "$(grep '^torch==' requirements.txt)"
"$1" -m pip install --no-cache-dir -r requirements.txt
"$1" -m pip install --no-cache-dir --no-deps .
cd /
"$1" -c "from codec.scheme.warmup import compile_all; compile_all()"
