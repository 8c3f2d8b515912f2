"""A client in another language, made only from the published protos: what a user of gRPC meets on the first day.

Usage: client.py PORT PROTO_ROOT GOOGLE_PROTO_ROOT

Generates its stubs, ingests, recalls, lists the services by reflection, asks for health, and reads the details of a
refusal. Prints one line per check; any failed check ends it with an error.
"""

import pathlib
import sys
import tempfile

import grpc
import grpc_tools
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from grpc_status import rpc_status
from grpc_tools import protoc

CALL_TIMEOUT_SECS = 20


def generate_stubs(proto_root: str, google_proto_root: str, out: str) -> None:
    well_known = str(pathlib.Path(grpc_tools.__file__).parent / "_proto")
    folders = [pathlib.Path(proto_root, "buf", "validate"), pathlib.Path(proto_root, "palimpsest", "v1")]
    sources = [str(path) for folder in folders for path in sorted(folder.glob("*.proto"))]
    includes = [f"-I{folder}" for folder in (proto_root, google_proto_root, well_known)]
    code = protoc.main(["protoc", *includes, f"--python_out={out}", f"--grpc_python_out={out}", *sources])
    assert code == 0, f"protoc ended with {code}"


def check(what: str, holds: bool, seen: object) -> None:
    assert holds, f"{what}: {seen}"
    print(f"ok {what}")


def refusal_of(call) -> tuple[grpc.RpcError, error_details_pb2.ErrorInfo]:
    try:
        call()
    except grpc.RpcError as error:
        status = rpc_status.from_call(error)
        assert status is not None, "a refusal carries google.rpc.Status"
        info = error_details_pb2.ErrorInfo()
        assert any(detail.Unpack(info) for detail in status.details), "a refusal carries ErrorInfo"
        return error, info
    raise AssertionError("the call was not refused")


def memory_round_trip(memories, memory_pb2) -> None:
    fact = memory_pb2.MemoryInput(type="fact", summary="The user prefers dark mode", topic_key="ui-theme")
    fact.content.struct_value.update({"theme": "dark", "since": 2024})
    request = memory_pb2.IngestRequest(ns="python", profile="client", memories=[fact])
    stored, call = memories.Ingest.with_call(request, timeout=CALL_TIMEOUT_SECS)
    check("ingest creates", [item.status for item in stored.results] == ["created"], stored)
    metadata = dict([*call.initial_metadata(), *call.trailing_metadata()])
    check("ingest tells its txid", int(metadata.get("service-txid", 0)) == stored.txid == 1, metadata)

    again = memories.Ingest(request, timeout=CALL_TIMEOUT_SECS)
    check("the same again is a duplicate", [(item.status, item.id) for item in again.results] == [("duplicate", stored.results[0].id)], again)

    found = memories.Recall(memory_pb2.RecallRequest(ns="python", profile="client", query="dark mode"), timeout=CALL_TIMEOUT_SECS)
    check("recall finds it", [memory.id for memory in found.memories] == [stored.results[0].id], found)
    check("recall gives the content", found.memories[0].content.struct_value["theme"] == "dark", found)
    check("recall names the channel", list(found.memories[0].channels.values) == ["keyword"], found)


def refusals(memories, memory_pb2) -> None:
    unknown = memory_pb2.GetMemoryRequest(ns="python", profile="nobody", id="mem_0")
    error, info = refusal_of(lambda: memories.GetMemory(unknown, timeout=CALL_TIMEOUT_SECS))
    check("an unknown profile is NOT_FOUND", error.code() == grpc.StatusCode.NOT_FOUND, error)
    check("and its reason is database_not_found", info.reason == "database_not_found", info)

    wrong = memory_pb2.IngestRequest(ns="python", profile="client", memories=[memory_pb2.MemoryInput(type="rumour", summary="x")])
    error, info = refusal_of(lambda: memories.Ingest(wrong, timeout=CALL_TIMEOUT_SECS))
    check("an unknown type is INVALID_ARGUMENT", error.code() == grpc.StatusCode.INVALID_ARGUMENT, error)
    check("and its reason is invalid_request", info.reason == "invalid_request", info)


def health(channel: grpc.Channel) -> None:
    stub = health_pb2_grpc.HealthStub(channel)
    for service in ("", "palimpsest.v1.MemoryService"):
        answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=CALL_TIMEOUT_SECS)
        check(f"health of '{service}' is SERVING", answer.status == health_pb2.HealthCheckResponse.SERVING, answer)


def reflection(channel: grpc.Channel) -> None:
    database = ProtoReflectionDescriptorDatabase(channel)
    services = set(database.get_services())
    expected = {f"palimpsest.v1.{name}Service" for name in ("Control", "Memory", "Data", "Branch")}
    check("reflection lists the services", expected <= services, services)
    described = database.FindFileContainingSymbol("palimpsest.v1.MemoryService")
    check("reflection describes a service", "Recall" in [method.name for method in described.service[0].method], described.name)


def main() -> None:
    port, proto_root, google_proto_root = sys.argv[1:]
    with tempfile.TemporaryDirectory() as stubs:
        generate_stubs(proto_root, google_proto_root, stubs)
        sys.path.insert(0, stubs)
        from palimpsest.v1 import memory_pb2, memory_pb2_grpc

        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            memories = memory_pb2_grpc.MemoryServiceStub(channel)
            memory_round_trip(memories, memory_pb2)
            refusals(memories, memory_pb2)
            health(channel)
            reflection(channel)


if __name__ == "__main__":
    main()
