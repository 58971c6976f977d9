"""Chains in existing trainers. Each trainer's module is imported only when it is used.

A plain loop needs only `codec.Checkpointer`; models that are sharded over processes need codec.dcp.

Read in this order:
    run           the chain of one training
    pointer       a small file in a trainer's checkpoint that names a step of a chain
    huggingface   ChainCallback for the Trainer of transformers
    lightning     ChainCallback and ChainCheckpointIO, a callback and a plugin for Lightning
    accelerate    ChainHook, for Accelerator.save_state
"""
