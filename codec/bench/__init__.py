"""Measuring the codec on this machine: python -m codec bench.

What is timed: tasks; how: cases; on which data: samples; growth, memory and a cold start:
scaling; the answer as Markdown: markdown; the command itself: command. Peers are in the
repository's benchmarks/, no part of this package.
"""
