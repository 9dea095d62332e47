import enum
import logging
import sys
import types
import unittest
from dataclasses import dataclass
from typing import Any
from unittest import mock

import skydock

KINDS = ("NotFound", "Conflict", "Throttled", "InProgress", "Denied", "Invalid", "Unavailable", "Internal")


@dataclass
class Ok:
    value: Any


@dataclass
class Err(Exception):
    value: Any


def bindings() -> dict[str, types.ModuleType]:
    """Returns the bindings that errors and elements use."""
    result: Any = types.ModuleType("componentize_py_types")
    result.Ok, result.Err, result.Result = Ok, Err, object
    wit: Any = types.ModuleType("types")
    create: Any = enum.Enum
    wit.AddressKind = create("AddressKind", [kind.name for kind in skydock.AddressKind])
    wit.Retry = lambda after, message: (after, message)
    for kind in KINDS:
        setattr(wit, f"CloudError_{kind}", lambda value, kind=kind: (kind, value))
    wit.CloudError_ImplementedElsewhere = lambda: ("ImplementedElsewhere", None)
    wit.CloudError = wit.NodeAddress = wit.Node = wit.Service = wit.ServicePort = object
    wit.LoadBalancerStatus = wit.Ingress = wit.PortStatus = object
    imports: Any = types.ModuleType("wit_world.imports")
    imports.skydock_provider_types_0_1_1 = wit
    storage: Any = types.ModuleType("storage")
    for kind in ("Cloud", "Exists", "Exhausted", "OutOfRange", "InUse"):
        setattr(storage, f"StorageError_{kind}", lambda value, kind=kind: (kind, value))
    storage.StorageError = object
    imports.skydock_provider_storage_0_1_1 = storage
    return {"componentize_py_types": result, "wit_world": types.ModuleType("wit_world"), "wit_world.imports": imports}


class ConvertTest(unittest.TestCase):
    def setUp(self) -> None:
        logging.disable(logging.CRITICAL)
        self.addCleanup(logging.disable, logging.NOTSET)
        patched = mock.patch.dict(sys.modules, bindings())
        patched.start()
        self.addCleanup(patched.stop)
        self.addCleanup(sys.modules.pop, "skydock._guest.convert", None)
        from skydock._guest import convert

        self.convert: Any = convert

    def test_an_element_about_volumes_has_errors_of_its_own(self) -> None:
        self.addCleanup(sys.modules.pop, "skydock._guest.volume_errors", None)
        from skydock._guest import volume_errors

        errors = [skydock.Exists("a"), skydock.Exhausted("b"), skydock.OutOfRange("c"), skydock.InUse(""), skydock.NotFound("e"), OSError("f")]
        results: Any = volume_errors.wit_results(["v", *errors], str.upper)
        self.assertEqual(results[0].value, "V")
        self.assertEqual(
            [it.value for it in results[1:]],
            [
                ("Exists", "a"),
                ("Exhausted", "b"),
                ("OutOfRange", "c"),
                ("InUse", "InUse"),
                ("Cloud", ("NotFound", "e")),
                ("Cloud", ("Unavailable", "OSError: f")),
            ],
        )

    def test_errors_of_elements_are_internal_for_a_call(self) -> None:
        self.assertEqual(self.convert.wit_error(skydock.InUse("by n1")), ("Internal", "by n1"))

    def test_an_element_of_a_wrong_type_does_not_affect_others(self) -> None:
        found = self.convert.wit_results(["a", None, ValueError("boom"), skydock.NotFound("gone"), "b"], str.upper)
        self.assertEqual([type(it) for it in found], [Ok, Err, Err, Err, Ok])
        self.assertEqual([it.value[0] for it in found[1:4]], ["Internal", "Internal", "NotFound"])
        self.assertEqual(found[2].value[1], "ValueError: boom")

    def test_each_error_has_a_case_whatever_it_is_made_of(self) -> None:
        for error, expected in [
            (skydock.NotGranted("no"), ("Denied", "no")),
            (skydock.NotFound(ValueError("gone\ud800\n")), ("NotFound", "gone")),
            (skydock.ImplementedElsewhere(), ("ImplementedElsewhere", None)),
            (skydock.Throttled("x", retry_after=float("inf")), ("Throttled", (1 << 53, "x"))),
            (skydock.InProgress("x", retry_after=float("nan")), ("InProgress", (0, "x"))),
        ]:
            self.assertEqual(self.convert.wit_error(error), expected)
