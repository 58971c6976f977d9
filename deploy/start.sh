#!/bin/sh
# Starts the dashboard in a container. Usage: sh deploy/start.sh [OPTION OF lcviz …]
#
# numba reads compiled code only from a folder in which it can also write. So what install.sh has
# compiled into KERNELS is copied to NUMBA_CACHE_DIR, and the server compiles nothing.
set -eu

mkdir -p "$NUMBA_CACHE_DIR"
cp -r "$KERNELS/." "$NUMBA_CACHE_DIR"
exec lcviz "$@"
