"""The NVIDIA GPUs of a node: what they are, who may use one, and whether one can be relied on."""
