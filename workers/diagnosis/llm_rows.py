"""What TensorRT-LLM's conversion and build say, as data."""

from __future__ import annotations

from enginefarm.state import Blame
from workers.diagnosis.row import Row, Runtime

LLM = Runtime.TENSORRT_LLM

ROWS: tuple[Row, ...] = (
    Row(
        r"KeyError: '?(?:\w+\.)*lm_head\.weight",
        "weights_missing",
        "The checkpoint has no weights for the output head: it shares the embedding's, undeclared.",
        "Set tie_word_embeddings in the model's config.json, or write lm_head.weight out.",
        LLM,
    ),
    Row(
        r"KeyError: '?[\w.]+\.weight|Missing key\(s\) in state_dict|Unexpected key\(s\)",
        "weights_missing",
        "The checkpoint lacks weights that its config promises.",
        "Compare model_type and architectures in config.json with the checkpoint.",
        LLM,
    ),
    Row(
        r"does not recognize this architecture|Unrecognized configuration class|model_type"
        r"|Unsupported (?:model )?architecture",
        "unsupported_graph",
        "The model's architecture is not known to this version.",
        "Correct architectures and model_type in config.json, or use a newer backend.",
        LLM,
    ),
    Row(
        r"must be divisible by|not divisible by tp_size|world_size.{0,40}mapping"
        r"|tp_size \* pp_size",
        "build_refused",
        "The number of GPUs does not divide the model's heads or layers.",
        "Choose a tensor-parallel size that divides the number of heads.",
        LLM,
    ),
    Row(
        r"Engine version .{0,40}(?:mismatch|does not match)|built with .{0,40}version",
        "engine_incompatible",
        "The engine was built by another version of TensorRT-LLM.",
        "Build it again with the version that shall run it.",
        LLM,
    ),
    Row(
        r"trtllm-build: (?:command )?not found|No module named 'tensorrt_llm",
        "backend_missing",
        "The node has no TensorRT-LLM that builds engines.",
        "Install a version that still has trtllm-build (1.2 is the last).",
        LLM,
        Blame.NODE,
    ),
    Row(
        r"^Killed|exit code:? 137|signal 9",
        "out_of_memory",
        "The host's memory ran out: conversion holds the whole checkpoint.",
        "Use a node with more memory (about three times the weights).",
        LLM,
        Blame.NODE,
    ),
)
