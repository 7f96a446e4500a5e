"""The options of ``enginefarm submit``: how each is written, and what its help says."""

from __future__ import annotations

from typing import Annotated

import typer

from enginefarm.gate import Tainted, Unmeasured
from enginefarm.search import Prefer

_MANY = "Repeatable."

Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="An .onnx file, or the digest of a model.")
]
Targets = Annotated[
    list[str],
    typer.Option("--target", "-t", metavar="TARGET", help=f"backend@architecture. {_MANY}"),
]
Profiles = Annotated[
    list[str] | None,
    typer.Option(
        metavar="INPUT=SHAPES",
        help="input=min:opt:max, as x=1x3x160x160:1x3x320x480:4x3x960x960; other inputs after "
        f"a comma. An input named again begins the next profile. {_MANY}",
    ),
]
Gates = Annotated[
    list[str] | None,
    typer.Option(
        metavar="GATE",
        help="As 'cosine>=0.999' or 'onnxruntime@cpu:latency_p99_ms<=5'; against a published "
        f"artifact 'latency_p99_ms<=+10%@sha256:…'. {_MANY}",
    ),
]
IfUnmeasured = Annotated[
    Unmeasured,
    typer.Option(metavar="fail|wait", help="What a gate does when nothing can measure it."),
]
IfTainted = Annotated[
    Tainted,
    typer.Option(
        metavar="fail|allow",
        help="What a gate does with a latency that cannot be relied on: throttled, not alone.",
    ),
]
Labels = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help=f"key=value. {_MANY}")]
Options = Annotated[
    list[str] | None,
    typer.Option(
        metavar="STAGE.OPTION=VALUE",
        help="As compile.optimization_level=3; plugins.BACKEND=DIGEST or a library's file: its"
        f" digest is sent. {_MANY}",
    ),
]
Trtexec = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FLAGS",
        help=f"Flags of a trtexec command: each is taken or refused by its name. {_MANY}",
    ),
]
Fixes = Annotated[
    list[str] | None,
    typer.Option(
        metavar="INPUT=VALUE|SHAPE",
        help="Make an input a constant (sr=16000), or fix its shape (x=1x3x320x480 or ids=[128])."
        f" {_MANY}",
    ),
]
Allowed = Annotated[
    list[str] | None,
    typer.Option(metavar="REPAIR", help=f"A repair that is not exact: restore-float. {_MANY}"),
]
Synthetic = Annotated[
    list[str] | None,
    typer.Option(
        metavar="INPUT=VALUES", help=f"How to make an input up: ids=0:30521 or sr=16000. {_MANY}"
    ),
]
Evaluation = Annotated[
    str | None,
    typer.Option(metavar="FILE|DIGEST", help="An .npz file of inputs, or the digest of a dataset."),
]
Metric = Annotated[
    str | None,
    typer.Option(
        metavar="NAME[OUTPUT]=LABELS",
        help="A measure by labels in the dataset, as 'accuracy[logits]=labels'; also f1_macro, "
        "embedding_recall_at_1 (or _5, _10), token_error_rate, ctc_error_rate.",
    ),
]
Kind = Annotated[
    str,
    typer.Option(
        "--precision",
        metavar="as-is|fp16|bf16|int8|fp8|int4|auto",
        help="What the engine computes with; finer with --option precision.method=entropy. auto: "
        "search for the best that meets --require, and follow the search to its end.",
    ),
]
Required = Annotated[
    list[str] | None,
    typer.Option(
        metavar="BOUND", help=f"What a search has to reach: 'cosine>=0.99'; see --gate. {_MANY}"
    ),
]
Preferred = Annotated[
    Prefer | None,
    typer.Option(
        metavar="latency|size|memory|accuracy",
        help="What decides among those that reach it; latency where it is measured, else size.",
    ),
]
Budget = Annotated[
    str | None,
    typer.Option(metavar="NUMBER,TIME", help="How much a search may try: 12, 30m or 12,30m."),
]
TryProfiles = Annotated[
    list[str] | None,
    typer.Option(
        "--try-profile",
        metavar="NAME:INPUT=SHAPES",
        help="Another profile that a search tries for its best candidates, by a name, written as "
        f"--profile: batch1:x=1x3x640x640. {_MANY}",
    ),
]
Calibration = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|DIGEST", help="An .npz file to take ranges from, or a dataset's digest."
    ),
]
MeasureOn = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SKU|every",
        help="Measure the one engine on each SKU of its architecture that is named: l4, "
        f"geforce-rtx-4090; every: on all that live nodes have. {_MANY}",
    ),
]
Seed = Annotated[int, typer.Option(min=0, metavar="NUMBER", help="Seed of made-up inputs.")]
Name = Annotated[str | None, typer.Option(metavar="NAME", help="Name to show for the model.")]
Priority = Annotated[int, typer.Option(min=0, max=9, metavar="0-9", help="0 is the most urgent.")]
WaitForNode = Annotated[
    str,
    typer.Option(metavar="TIME", help="How long to wait for a node that serves a target: 10m, 2h."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only plan; build nothing.")]
Explain = Annotated[
    bool, typer.Option("--explain", help="Plan, and say what differs from the nearest build.")
]
IdempotencyKey = Annotated[
    str | None,
    typer.Option(
        "--idempotency-key",
        metavar="KEY",
        help="The same key asks for the same build only once.",
    ),
]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Watch until it is over.")]
