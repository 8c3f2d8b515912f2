"""Calls every method of the Python client on a node at argv[1], both kinds of client, and prints the routes called.

The synchronous client goes first; the asynchronous one does the same through a runner that awaits what it gives.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from typing import Any

import httpx

from palimpsest import AsyncPalimpsest, CallOptions, Event, Fact, Palimpsest, Task, errors

sent: list[str] = []


def note(request: httpx.Request) -> None:
    sent.append(f"{request.method} {request.url.raw_path.decode().split('?')[0]}")


async def note_async(request: httpx.Request) -> None:
    note(request)


async def settle(value: Any) -> Any:
    """What a method gives, of either kind of client: a list for what is iterated."""
    if inspect.isawaitable(value):
        return await value
    if hasattr(value, "__aiter__"):
        return [item async for item in value]
    return list(value) if hasattr(value, "__next__") else value


async def refused(kind: type[Exception], make: Any) -> None:
    try:
        await settle(make())
    except kind:
        return
    raise AssertionError(f"no {kind.__name__}")


async def memories(client: Any, ns: str) -> None:
    db = client.profile(ns, "alice")
    fact, task = await settle(
        db.remember(
            [
                Fact("Alice likes it light", topic_key="theme", content={"camelCase": {"from": 1}}),
                Task("call the bank", session_id="s1", metadata={"a_b": 1}),
            ]
        )
    )
    assert (await settle(db.get(fact.id))).content == {"camelCase": {"from": 1}}
    assert await settle(db.get("mem_unknown")) is None
    found = await settle(db.recall("what does Alice like?", k=3, explain=True))
    assert found.memories[0].id == fact.id and found.memories[0].explain is not None
    assert found.memories[0].topic_key == "theme" and found.memories[0].superseded_by is None
    assert "light" in (await settle(db.context("Alice", max_tokens=200))).text
    assert (await settle(db.update(task.id, pinned=True))).pinned
    assert [memory.id for memory in await settle(db.memories(filter={"a_b": 1}, limit=1))] == [task.id]
    assert len(await settle(db.memories(limit=1))) == 2
    assert [memory.id for memory in await settle(db.memories(types=["fact", "event"]))] == [fact.id]
    await settle(db.turns("s1").add(role="user", content="hello"))
    assert (await settle(db.sessions(include_turns=True)))[0].turns == 1
    await settle(db.end_session("s1", turns=True))
    [event] = await settle(db.remember(Event("to be forgotten")))
    await settle(db.forget(event.id))
    await refused(errors.NotFound, lambda: db.forget(event.id))
    erasure = await settle(db.erase(topic_key="theme", type="fact"))
    assert list(erasure.coupon.memory_ids) == [fact.id]
    assert (await settle(db.erasure(erasure.coupon.id))).coupon.id == erasure.coupon.id
    assert len(await settle(db.erasures())) == 1
    await refused(errors.DeadlineExceeded, lambda: erasure.wait(within=0.01))
    await settle(db.remember([Event("one"), Event("two")]))
    assert len(await settle(db.forget_all(types=["event"], limit=1))) == 2
    await settle(db.remember(Fact("Alice wears a red coat", topic_key="coat")))
    await settle(db.remember(Fact("Alice wears a blue coat", topic_key="coat")))
    assert len(await settle(db.history(topic_key="coat", type="fact", limit=1))) == 2
    [proposal] = await settle(db.remember(Event("maybe", status="proposed")))
    assert (await settle(db.review([proposal.id], "reject")))[0].status == "rejected"
    for make in (
        lambda: db.ask("anything"),
        lambda: db.extract([{"role": "user", "content": "hi"}]),
        lambda: db.reembed(),
        lambda: db.calibrate(),
    ):
        await refused(errors.Unconfigured, make)
    await settle(db.put_policy({"memory": {"task_ttl_max_secs": 60}}))
    assert (await settle(db.policy())).override == {"memory": {"task_ttl_max_secs": 60}}
    assert json.loads(client.token())[f"{ns}--alice@main"] > 0


async def tools(client: Any, name: str) -> None:
    db = await settle(client.create_database(name))
    kv = db.kv("settings")
    await settle(kv.put("k/1", "text", if_absent=True))
    await refused(errors.Conflict, lambda: kv.put("k/1", "text", if_absent=True))
    value = await settle(kv.get("k/1"))
    assert value.text() == "text"
    await settle(kv.put("k/1", b"\x01\x00", if_match=value.hash))
    assert (await settle(kv.get("k/1"))).bytes == b"\x01\x00"
    assert await settle(kv.keys()) == ["k/1"]
    await settle(kv.delete("k/1"))
    assert await settle(kv.get("k/1")) is None
    await settle(kv.put_many([{"key": "a", "text": "1"}, {"key": "b", "text": "2", "if_absent": True}]))
    assert [entry.text for entry in await settle(kv.get_many(["b", "x", "a"]))] == ["2", "1"]
    assert [entry.key for entry in await settle(kv.entries(include="values", limit=1))] == ["a", "b"]
    assert (await settle(kv.delete_many([{"key": "a"}]))).deleted == 1

    notes = db.docs("notes")
    await settle(notes.insert([{"from": "a", "n": 1}, {"from": "b", "n": 2}]))
    assert [doc["from"] for doc in await settle(notes.find({"n": {"$gte": 2}}, sort={"from": -1}))] == ["b"]
    await settle(notes.put("x", {"from": "x"}, if_absent=True))
    assert (await settle(notes.get("x"))).doc["from"] == "x"
    assert await settle(notes.get("y")) is None
    await settle(notes.update(filter={"from": "a"}, update={"$set": {"n": 5}}))
    await settle(notes.delete("x"))
    await settle(notes.delete_many(filter={"n": 5}))
    await settle(notes.create_index("n"))
    assert [index.path for index in await settle(notes.indexes())] == ["n"]
    assert await settle(notes.drop_index("n"))
    assert (await settle(notes.count())).count == 1
    assert len((await settle(notes.group(path="from"))).groups) == 1
    assert len(await settle(db.collections())) == 1
    assert len(await settle(db.facets())) > 0

    faces = db.vectors("faces")
    await settle(faces.upsert(id="f1", embedding=[0, 1], metadata={"is_a": 1}))
    await settle(faces.upsert_many(vectors=[{"id": "f2", "embedding": [1, 0]}]))
    [hit] = await settle(faces.search(vector=[0, 1], k=1))
    assert hit.id == "f1" and hit.metadata == {"is_a": 1}
    assert (await settle(faces.get("f2"))).embedding == [1, 0]
    assert [vector.id for vector in await settle(faces.list(limit=1))] == ["f1", "f2"]
    await settle(faces.delete("f1"))
    await settle(faces.delete_many(ids=["f2"]))

    await settle(db.sql("CREATE TABLE t (a TEXT)"))
    assert (await settle(db.sql("INSERT INTO t VALUES (?)", ["x"]))).rows_affected == 1
    [result] = await settle(db.batch([{"q": "SELECT a FROM t WHERE a = :v", "params": {"v": "x"}}]))
    assert result.rows == [["x"]]
    assert (await settle(db.sync())).txid > 0


async def talk(client: Any, name: str) -> None:
    db = await settle(client.create_database(name))
    turns = db.turns("chat")
    said = [{"role": "user", "content": {"a": 1}}, {"role": "assistant", "content": "two"}]
    await settle(turns.append(said, operation_id="1"))
    assert (await settle(turns.last(1)))[0].content == "two"
    assert [turn.seq for turn in await settle(turns.list(limit=1))] == [1, 2]
    await settle(turns.replace(expected=[{"seq": 2}], turns=[{"role": "assistant", "content": "2"}]))
    await settle(turns.search(vector=[1, 0]))
    await settle(turns.delete(last=1))
    assert len(await settle(turns.list())) == 1

    await settle(db.files.put("notes/été.md", "one\ntwo\n"))
    file = await settle(db.files.get("notes/été.md"))
    assert file.text == "one\ntwo\n" and file.lines == 2
    await settle(db.files.edit("notes/été.md", edits=[{"old_text": "two", "text": "2"}], if_match=file.hash))
    assert [entry.path for entry in await settle(db.files.list(recursive=True))] == ["notes/été.md"]
    await settle(db.files.move("notes", "kept"))
    assert (await settle(db.files.search("one")))[0].path == "kept/été.md"
    assert len(await settle(db.files.versions("kept/été.md"))) == 1
    await settle(db.files.delete("kept", recursive=True))
    assert await settle(db.files.get("kept/été.md")) is None


async def branches(client: Any, ns: str) -> None:
    db = client.profile(ns, "brancher")
    await settle(db.remember(Fact("on main", topic_key="t")))
    await settle(db.checkpoint("before"))
    draft = await settle(db.fork("draft", ttl=600))
    await settle(draft.remember(Fact("on the draft", topic_key="t")))

    async def held(branch: Any) -> list[str]:
        return [memory.summary for memory in (await settle(branch.recall(topic_key="t"))).memories]

    assert (await held(db), await held(draft)) == (["on main"], ["on the draft"])
    assert [branch.name for branch in await settle(db.branches())] == ["main", "draft"]
    await settle(draft.checkpoint("mine"))
    assert "mine" in [state.checkpoint for state in await settle(draft.checkpoints())]
    await settle(draft.delete_checkpoint("mine"))
    await settle(draft.delete_branch())
    await refused(errors.BranchNotFound, lambda: draft.recall(topic_key="t"))
    await settle(db.remember(Fact("later", topic_key="t")))
    assert len(await settle(db.diff(from_="before"))) == 2
    earlier = await settle(db.recall(None, CallOptions(at="before"), topic_key="t"))
    assert earlier.memories[0].summary == "on main"
    await settle(db.remember(Fact("undone", topic_key="t")))
    txid = (await settle(db.sync())).txid
    told = (await settle(db.undo(txid, dry_run=True))).changes
    assert [change.op for change in told] == ["created", "superseded"]
    assert (await settle(db.undo(txid))).undone == txid
    assert await held(db) == ["later"]
    await settle(db.rewind("before"))
    assert await held(db) == ["on main"]


async def transfers(client: Any, ns: str) -> None:
    db = client.profile(ns, "mover")
    await settle(db.remember(Fact("to be moved", topic_key="t", subject="ada")))
    text = "lorem ipsum " * 60_000
    for path in ("a", "b", "c", "d"):
        await settle(db.files.put(path, path + text))
    await settle(db.checkpoint("whole"))
    await settle(db.files.delete("d"))
    parts = await settle(db.export(CallOptions(at="whole")))
    assert len(parts) > 1
    copy = client.profile(ns, "moved")
    await settle(copy.remember(Event("was there")))
    dry = await settle(copy.import_(parts, dry_run=True))
    assert dry.complete and not dry.errors
    lines = b"".join(parts)
    taken = await settle(copy.import_([lines[at : at + 500_000] for at in range(0, len(lines), 500_000)]))
    assert taken.complete and taken.counts == dry.counts and not taken.left
    assert (await settle(copy.files.get("d"))).text == "d" + text
    assert (await settle(copy.recall(topic_key="t"))).memories[0].subject == "ada"
    assert (await settle(copy.import_(db.export(), mode="replace"))).complete
    await settle(copy.rewind(taken.checkpoint))
    assert await settle(copy.files.get("d")) is None
    await refused(errors.InvalidRequest, lambda: copy.import_(b"}{\n"))
    await refused(errors.InvalidRequest, lambda: copy.import_(lines + lines))


async def feed(client: Any, ns: str) -> None:
    db = client.profile(ns, "watched")
    await settle(db.remember(Fact("told", topic_key="t")))
    told: list[Any] = []
    events = db.watch(after=0)
    while not told or told[-1].kind == "position":
        told.append(await events.__anext__() if hasattr(events, "__anext__") else next(events))
    await settle(events.aclose() if hasattr(events, "aclose") else events.close())
    assert [(event.kind, event.txid) for event in told] == [("position", 0), ("changes", 1)]
    assert [(change.kind, change.op) for change in told[1].changes] == [("memory", "created")]


async def webhooks(client: Any, ns: str) -> None:
    db = client.profile(ns, "hooked")
    await settle(db.remember(Fact("one", topic_key="t")))
    hook = await settle(db.webhooks.create(url="https://localhost:1/x", kinds=["memory"], description="d"))
    assert [one.id for one in await settle(db.webhooks.list())] == [hook.id]
    assert (await settle(db.webhooks.update(hook.id, paused=True))).paused_because == "asked"
    assert (await settle(db.webhooks.test(hook.id))).reason == "address"
    assert await settle(db.webhooks.failures(hook.id)) == []
    assert (await settle(db.webhooks.redeliver(hook.id, txids=[1]))).count == 0
    await settle(db.webhooks.delete(hook.id))
    await refused(errors.NotFound, lambda: db.webhooks.test(hook.id))


async def control(client: Any, ns: str, name: str) -> None:
    assert f"{ns}--alice" in [database.name for database in await settle(client.databases())]
    namespace = client.namespace(ns)
    assert "alice" in [profile.profile for profile in await settle(namespace.profiles(limit=1))]
    await settle(namespace.put_policy({"memory": {"task_ttl_max_secs": 3600}}))
    assert (await settle(namespace.policy())).policy == {"memory": {"task_ttl_max_secs": 3600}}
    assert (await settle(namespace.usage())).databases > 0
    minted = await settle(namespace.mint_token(scope="read"))
    await settle(namespace.revoke_token(minted.jti))
    await settle(client.revoke_token(name, (await settle(client.mint_token(name, scope="read", expires_in=60))).jti))
    await settle(namespace.audit(limit=5))
    await settle(client.delete_database(name))
    await refused(errors.DatabaseNotFound, lambda: client.database(name).sql("SELECT 1"))
    await settle(client.health())
    assert (await settle(client.ready()))["ready"]
    assert len(await settle(client.keys())) > 0
    assert (await settle(client.llms())).startswith("# Palimpsest\n")


async def everything(client: Any, suffix: str) -> None:
    await memories(client, f"py{suffix}")
    await tools(client, f"tools{suffix}")
    await talk(client, f"talk{suffix}")
    await branches(client, f"py{suffix}")
    await transfers(client, f"py{suffix}")
    await feed(client, f"py{suffix}")
    await webhooks(client, f"py{suffix}")
    await control(client, f"py{suffix}", f"tools{suffix}")


async def main(url: str) -> None:
    with httpx.Client(event_hooks={"request": [note]}) as http, Palimpsest(url, http=http) as client:
        await everything(client, "-s")
        paths = client.openapi()["paths"]
    told = {"sync": list(sent)}
    sent.clear()
    async with httpx.AsyncClient(event_hooks={"request": [note_async]}) as http:
        async with AsyncPalimpsest(url, http=http) as asynchronous:
            await everything(asynchronous, "-a")
            await asynchronous.openapi()
            options = CallOptions(timeout=0.000001)
            await refused(errors.DeadlineExceeded, lambda: asynchronous.databases(options))
    print(json.dumps({"paths": paths, **told, "async": sent}))


asyncio.run(main(sys.argv[1]))
