"""The lab: experiments on the codec without a screen. They take arrays and return values.

What is measured on one delta:

    anatomy         its buckets, and what each number of bits would keep and cost
    sizes           the bytes of its parts
    records         one record of a chain, part by part
    chain_summary   a chain in numbers
    step_tensors    one step of a chain, tensor by tensor
    value_history   one value over the steps of a chain
    removed_bucket  the loss when one exponent bucket is left out
    follow_weight   one weight through all stages
    codewords       the first bits of a stream, cut at its code words
    lesson          the worked example of the Learn page

What is measured on a whole training:

    workload        what the lab trains
    series          its states, or a user's own checkpoints
    recovery/       what a crash costs
    tuner/          which setting to use

Used by all: measures (distance, rework), intervals (means), progress, machine (this computer).
"""
