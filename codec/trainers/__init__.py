"""Chains in the trainers that people already use: one module for each, imported only when used.

    huggingface   ChainCallback, a callback of transformers' Trainer
    lightning     ChainCallback and ChainCheckpointIO, a callback and a plugin of Lightning's
    accelerate    ChainHook, beside Accelerator.save_state

A plain loop needs none of them, only `codec.Checkpointer`; what is sharded over processes needs
codec.dcp. Not done here: what they share, which is a training's chain (run), the state of a model
(models), and a small file that names a step of a chain (pointer).
"""
