"""What `benchmarks/page.py` measures, a module for each part."""
