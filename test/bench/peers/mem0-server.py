"""mem0 behind a plain HTTP server: memories are kept as given (no model), with the vectors that the bench brings.

mem0-server.py <port> <directory> <dimension>
"""

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

port, directory, dimension = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
os.environ.update(MEM0_TELEMETRY="False", MEM0_DIR=directory, OPENAI_API_KEY="none")

from mem0 import Memory  # noqa: E402

given = threading.local()


class GivenVectors:
    """Answers with the vector that came with the request."""

    def embed(self, text, memory_action=None):
        return given.vector

    def embed_batch(self, texts, memory_action="add"):
        return [given.vector for _ in texts]


memory = Memory.from_config(
    {
        "vector_store": {
            "provider": "qdrant",
            "config": {
                "path": os.path.join(directory, "qdrant"),
                "collection_name": "memories",
                "embedding_model_dims": dimension,
                "on_disk": True,
            },
        },
        "history_db_path": os.path.join(directory, "history.db"),
    }
)
memory.embedding_model = GivenVectors()


def ingest(space, memories):
    for one in memories:
        given.vector = one["embedding"]
        memory.add(one["summary"], user_id=space, metadata={"tag": one["content"]["tag"]}, infer=False)
    return []


def recall(space, question):
    given.vector = question["embedding"]
    found = memory.search(" ".join(question["words"]), filters={"user_id": space}, top_k=10, threshold=0.0)
    return [one["metadata"]["tag"] for one in found["results"]]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        self.answer(200, {})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        _, what, space = self.path.split("/")
        try:
            self.answer(200, (ingest if what == "ingest" else recall)(space, body))
        except Exception as error:
            self.answer(500, f"{type(error).__name__}: {error}")

    def answer(self, status, told):
        body = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
