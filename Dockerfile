# The dashboard in a container.
#
#   docker build -t lcviz .
#   docker run --read-only --tmpfs /tmp -p 8501:8501 -v lcviz-data:/data -m 1g lcviz
#
# PyTorch's installation page names an index with builds for the CPU alone, which are smaller:
#
#   docker build --build-arg TORCH_INDEX=URL -t lcviz .
FROM python:3.11-slim

RUN useradd --create-home --uid 1000 lcviz && mkdir /data && chown lcviz /data
WORKDIR /app
COPY requirements.txt pyproject.toml README.md LICENSE ./
COPY codec codec
COPY demo_models demo_models
COPY lcviz lcviz
COPY deploy deploy
ARG TORCH_INDEX=""
ENV KERNELS=/app/kernels
RUN sh deploy/install.sh python

# The volume has data sets that are not built in, and the files of runs and visitors: in /tmp, which
# is memory, they would count towards -m. /tmp has caches.
ENV LCVIZ_DATA=/data TMPDIR=/data HOME=/tmp NUMBA_CACHE_DIR=/tmp/kernels MALLOC_ARENA_MAX=2 PYTHONDONTWRITEBYTECODE=1
VOLUME /data
USER lcviz
EXPOSE 8501
HEALTHCHECK --start-period=60s CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8501/_stcore/health', timeout=5)"]
CMD ["sh", "deploy/start.sh", "--host", "0.0.0.0", "--port", "8501", "--no-browser"]
