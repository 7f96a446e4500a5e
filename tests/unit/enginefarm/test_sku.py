"""The SKU of a device follows from the name that NVML gives it."""

from __future__ import annotations

import pytest

from enginefarm.sku import SKU_SHAPE, sku_of


@pytest.mark.parametrize(
    ("name", "sku"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA L4", "l4"),
        ("Tesla T4", "tesla-t4"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
        ("NVIDIA A100 80GB PCIe", "a100-80gb-pcie"),
        ("NVIDIA GeForce RTX 4090", "geforce-rtx-4090"),
        ("NVIDIA H200 MIG 1g.18gb", "h200-mig-1g-18gb"),
        ("NVIDIA L40S (rev a1)", "l40s-rev-a1"),
    ],
)
def test_a_sku_is_the_devices_name_without_the_vendor_and_as_an_option_can_say_it(
    name: str, sku: str
) -> None:
    assert sku_of(name) == sku
    assert SKU_SHAPE.fullmatch(sku)


def test_a_word_that_only_begins_like_the_vendor_is_kept() -> None:
    assert sku_of("NVIDIAX 1") == "nvidiax-1"
