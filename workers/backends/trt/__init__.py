"""What TensorRT and TensorRT-RTX have in common.

Nothing here imports either: the runtime's module is handed over by the backend that owns it.
"""
