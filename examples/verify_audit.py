"""Verifies the chains of an audit stream with Python's own library: python3 verify_audit.py page1.json page2.json

The files are answers of GET /v1/namespaces/{ns}/audit, page after page, without filters. Exit code 0: no event was changed,
removed or put in between the first and the last of each node. docs/verifying.md says what that means.
"""

import hashlib
import json
import sys


def main():
    links, events, broken = {}, 0, 0
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            page = json.load(file)["events"]
        for event in page:
            events += 1
            node = event["node"]
            if node in links and event["prev"] != links[node]:
                broken += 1
                print(f"BROKEN before {event['id']} of node {node}: something was removed, changed or put in there")
            # The members stand in the order in which they were written; so the text is that of the object in storage.
            text = json.dumps(event, separators=(",", ":"), ensure_ascii=False)
            links[node] = hashlib.sha256(text.encode()).hexdigest()
    print(f"{events} events of {len(links)} nodes, {broken} broken links")
    for node, link in links.items():
        print(f"newest of {node}: {link}")
    return 0 if broken == 0 else 1


sys.exit(main())
