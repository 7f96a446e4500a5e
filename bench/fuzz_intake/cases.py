"""The uploads: good ones that were changed, and ones that were never good.

Each maker takes a source of chance and returns a request; the same seed gives the same requests.
"""

from __future__ import annotations

import json
import random
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.fuzz_intake import wire
from enginefarm.digest import digest_of
from localfarm.models import MODELS

OCTETS = {"Content-Type": "application/octet-stream"}
_LARGEST_SEED = 3 << 20
_MAGICS = [b"\x80\x04\x95", b"PK\x03\x04", b"\x1f\x8b", b"GGUF", b"ftrt", b"\x93NUMPY", b"<?xml "]
_NAMES = [
    *("../w.bin", "/etc/passwd", "a/../../b", "..", ".", "", " ", "a\0b", "a\nb", "C:\\w", "~/w"),
    *(
        "w" * 5000,
        "é" * 90,
        "\u202egnp.exe",
        "model.onnx",
        "model.plan",
        "con",
        "%2e%2e%2fw",
        "a;b",
    ),
]


@dataclass(frozen=True)
class Request:
    """One request: where, with which headers and bytes."""

    kind: str
    path: str
    body: bytes
    headers: dict[str, str] = field(default_factory=lambda: dict(OCTETS))
    method: str = "POST"


@dataclass
class Cases:
    """Makes requests of every kind in turn."""

    chance: random.Random
    largest: int = _LARGEST_SEED

    def __post_init__(self) -> None:
        """Read the good models that others are made from."""
        files = [model.file() for model in MODELS]
        small = sorted({file for file in files if file.stat().st_size <= self.largest})
        self._models = [file.read_bytes() for file in small]

    def make(self, number: int) -> Request:
        """Return the request of a number: each kind has its turn."""
        kinds = list(KINDS)
        kind = kinds[number % len(kinds)]
        return KINDS[kind](self, kind)

    def model(self) -> bytes:
        """Return a good model."""
        return self.chance.choice(self._models)

    def flipped(self, kind: str) -> Request:
        """Change some bytes; most of a model's bytes are weights, so near its ends as well."""
        data = bytearray(self.model())
        for _ in range(self.chance.randrange(1, 9)):
            near = self.chance.choice((400, 4000, len(data)))
            at = self.chance.randrange(min(near, len(data)))
            data[self.chance.choice((at, -at - 1))] = self.chance.randrange(256)
        return Request(kind, "/v1/models", bytes(data))

    def cut(self, kind: str) -> Request:
        """Send the beginning."""
        data = self.model()
        return Request(kind, "/v1/models", data[: self.chance.randrange(len(data))])

    def lengths(self, kind: str) -> Request:
        """Put a length where another was."""
        data = self.model()
        at = self.chance.randrange(min(len(data) - 10, 3000))
        lie = wire.varint(self.chance.choice((0, 1, 127, 1 << 14, 1 << 31, 1 << 63, (1 << 64) - 1)))
        cut = self.chance.randrange(1, 3)
        return Request(kind, "/v1/models", data[:at] + lie + data[at + cut :])

    def repeated(self, kind: str) -> Request:
        """Give fields twice, or in another order."""
        fields = wire.top_fields(self.model())
        chosen = self.chance.choices(fields, k=self.chance.randrange(1, 6))
        both = fields + chosen
        self.chance.shuffle(both)
        return Request(kind, "/v1/models", b"".join(both)[: self.largest])

    def nested(self, kind: str) -> Request:
        """Nest graphs or types."""
        make = self.chance.choice((wire.nested_graphs, wire.nested_types))
        return Request(kind, "/v1/models", make(self.chance.choice((5, 31, 33, 200, 3000))))

    def many(self, kind: str) -> Request:
        """Give very many of something small."""
        small = self.chance.choice(
            [
                wire.field(1, b""),
                wire.field(1, wire.field(4, b"Relu")),
                wire.field(5, b""),
                wire.field(5, wire.field(8, b"w")),
                wire.field(11, wire.field(1, b"x")),
                wire.field(13, b""),
                wire.field(1, wire.field(4, b"A") + wire.field(5, wire.field(8, bytes(1 << 14)))),
            ]
        )
        count = self.chance.choice((1000, 100_000, self.largest)) // len(small)
        return Request(kind, "/v1/models", wire.whole(small * count))

    def other(self, kind: str) -> Request:
        """Send something that is no model at all."""
        head = self.chance.choice([*_MAGICS, b"\x08\x09", b""])
        return Request(
            kind, "/v1/models", head + self.chance.randbytes(self.chance.randrange(9000))
        )

    def external(self, kind: str) -> Request:
        """Name a file that no model may name."""
        name = self.chance.choice(_NAMES).encode()
        place = wire.field(13, wire.field(1, b"location") + wire.field(2, name))
        number = self.chance.choice((0, -1, 1 << 40, 10**30))
        place += wire.field(
            13,
            wire.field(1, self.chance.choice((b"offset", b"length")))
            + wire.field(2, str(number).encode()),
        )
        weight = wire.field(8, b"w") + place + b"\x70\x01\x10\x01\x08\x04"
        node = wire.field(1, wire.field(1, b"w") + wire.field(2, b"y") + wire.field(4, b"Relu"))
        graph = node + wire.field(5, weight) + wire.field(12, wire.field(1, b"y"))
        return Request(kind, "/v1/models", wire.whole(graph))

    def form(self, kind: str) -> Request:
        """Send a form that is none, or hardly."""
        name = self.chance.choice(_NAMES).replace("\n", "%0a")
        part = (
            f'--b\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
        ).encode(errors="replace")
        end = self.chance.choice((b"\r\n--b--\r\n", b"\r\n--b", b"", b"\r\n--c--\r\n"))
        data = self.chance.choice((self.model(), b"", b"\r\n--b\r\n" * 500, bytes(20_000)))
        body = part * self.chance.choice((1, 2, 1100)) + data + end
        if self.chance.random() < 1 / 3:
            flipped = bytearray(body)
            flipped[self.chance.randrange(min(200, len(body)))] = self.chance.randrange(256)
            body = bytes(flipped)
        boundary = self.chance.choice(("b", "b", "b", "", "x" * 300, '"'))
        headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        return Request(kind, "/v1/models", body, headers)

    def arrays(self, kind: str) -> Request:
        """Send arrays that are not what they say."""
        chance = self.chance
        rows = chance.choice(("(4,)", "(0,)", "()", "(1,)*40", "(99999999999999999999,)", "(-1,)"))
        body = chance.choice(
            [
                wire.zipped({"x.npy": wire.object_array()}),
                wire.zipped({"../x.npy": wire.array("(4,)", data=bytes(16))}),
                wire.zipped({"/x.npy": wire.array("(4,)", data=bytes(16))}),
                wire.zipped({"x.npy": wire.array(rows, data=bytes(16))}),
                wire.zipped({"x.npy": wire.array("(4,)", "[('a', '<f4')]", bytes(16))}),
                wire.zipped({"x.npy": wire.array("(4,)", "'|O'", bytes(16))}),
                wire.zipped({f"x{n}.npy": b"" for n in range(chance.choice((1, 300, 3000)))}),
                wire.zipped({"x.npy": self.model()[:5000], "y.npy": b""}),
                wire.lying_sizes(wire.npz(chance), chance),
                wire.npz(chance)[: chance.randrange(1, 400)],
                wire.object_array(),
            ]
        )
        return Request(kind, "/v1/datasets", body)

    def bomb(self, kind: str) -> Request:
        """Send much in little."""
        size = self.chance.choice((1, 10, 40)) * self.largest
        data = wire.array(f"({size // 4},)", data=bytes(size))
        return Request(kind, "/v1/datasets", wire.zipped({"x.npy": data}, zipfile.ZIP_DEFLATED))

    def flipped_arrays(self, kind: str) -> Request:
        """Change some bytes of a good dataset."""
        data = bytearray(wire.npz(self.chance))
        for _ in range(self.chance.randrange(1, 6)):
            data[self.chance.randrange(len(data))] = self.chance.randrange(256)
        return Request(kind, "/v1/datasets", bytes(data))

    def declared(self, kind: str) -> Request:
        """Declare what nobody could send."""
        chance = self.chance
        odd = [0, -1, 1 << 70, 1.5, "9", None, [], {}, True, "\0", "x" * 10_000]
        file: dict[str, object] = {
            "name": chance.choice([*_NAMES, "m.onnx"]),
            "size": chance.choice([100, 100, *odd]),
            "digest": chance.choice([digest_of(b""), digest_of(b""), *odd]),
        }
        if chance.random() < 1 / 4:
            file[str(chance.choice(odd))] = chance.choice(odd)
        body: object = {
            "files": [file] * chance.choice((1, 1, 2, 1500)),
            "name": chance.choice(odd),
        }
        text = json.dumps(chance.choice((body, body, body, [body], odd)))
        text = chance.choice((text, text, text[: len(text) // 2], "[" * 100_000))
        return Request(kind, "/v1/uploads", text.encode(), {"Content-Type": "application/json"})

    def parts(self, kind: str) -> Request:
        """Send parts of what was never declared."""
        upload = self.chance.choice(("upl_none", "..", "%00", "x" * 500, "é"))
        number = self.chance.choice((0, 1, -1, 10_001, 10**30, "x", ""))
        path = f"/v1/uploads/{upload}/files/{self.chance.choice((0, -1, 'x'))}?part={number}"
        return Request(kind, path, self.chance.randbytes(999), method="PUT")


KINDS: dict[str, Callable[[Cases, str], Request]] = {
    "bytes changed": Cases.flipped,
    "cut": Cases.cut,
    "lengths that lie": Cases.lengths,
    "fields repeated": Cases.repeated,
    "nested deep": Cases.nested,
    "very many": Cases.many,
    "other kinds": Cases.other,
    "external data": Cases.external,
    "odd forms": Cases.form,
    "odd arrays": Cases.arrays,
    "bombs": Cases.bomb,
    "arrays changed": Cases.flipped_arrays,
    "odd declarations": Cases.declared,
    "odd parts": Cases.parts,
}
