"""The error codes of uploads: how they come in parts, and how they are read."""

from __future__ import annotations

from typing import Final

UPLOAD_CODES: Final[dict[str, str]] = {
    "bad_multipart": "The multipart body cannot be read.",
    "dataset_too_complex": "The dataset takes more to read than the farm spends on one.",
    "empty_upload": "The request came without a file.",
    "external_data_overlaps": "Two tensors share a part of their external data, but not all of it.",
    "file_not_referenced": "A file was sent that the model does not refer to.",
    "lfs_pointer": "The file is a Git LFS pointer, not the model.",
    "model_file_too_large": "The `.onnx` file is above the 2 GiB that a protobuf message can have.",
    "no_such_part": "The upload has no such part, or it need not be sent.",
    "one_model_file": "The request has no `.onnx` file, or several.",
    "part_corrupt": "A part in the bucket is not the one that was announced.",
    "part_differs": "A part was announced with another digest before.",
    "part_size": "A part does not have the size that belongs to its number.",
    "pickle_refused": "The file is a Python pickle, which is a program.",
    "program_refused": "The file is a program of PyTorch's, which the farm does not run.",
    "quota_uploads": "The tenant has too many uploads that have not ended.",
    "reader_crashed": "The process that read the upload failed on it.",
    "reader_unavailable": "The process that reads uploads could not be started.",
    "readers_busy": "The farm is reading as many uploads as it may.",
    "size_differs": "A digest was declared with another size than its bytes have.",
    "spool_full": "The farm has no room to take the upload in.",
    "unknown_upload": "There is no such upload for this tenant.",
    "upload_incomplete": "Parts of the upload are missing.",
    "upload_lost": "What was sent of the upload is no longer in the bucket.",
    "upload_not_open": "The upload takes no more parts.",
}
