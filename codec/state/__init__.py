"""A nested state to arrays and texts, and back.

Read in this order:
    family        which lossy tensors belong together, and their target
    tensors       names, dtypes and shapes; torch tensors to numpy arrays and back
    tree          a nested state to a structure, tensors and other values
    edits         changes of these other values from one step to the next
    policy        which tensors are lossy, exact or skipped, by name
    moments       which second moment stands beside a first one
    selection     which tensors and values to read, by patterns of their names
    objects       the objects of a training: their states, and back into them
    modules       loads tensors into torch modules, all or nothing
    tensor_files  .safetensors and .pt files
    file_steps    the step of a file, from its name
"""
