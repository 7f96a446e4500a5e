"""Fetch an artifact by hash, and put exactly the bytes that were built, gated and signed in place.

:func:`pull` verifies the signature before it fetches a file and every file before it shows one;
the folder appears, or is exchanged, in one step. :func:`verify_folder` says offline whether a
folder still is what was signed. Whatever is refused leaves what was there before untouched.
"""

from enginefarm.install.cache import BlobCache, Told
from enginefarm.install.folder import Installed, verify_folder
from enginefarm.install.pull import pull, require_published
from enginefarm.install.source import ArtifactSource, BlobPart

__all__ = [
    "ArtifactSource",
    "BlobCache",
    "BlobPart",
    "Installed",
    "Told",
    "pull",
    "require_published",
    "verify_folder",
]
