"""Verifies the receipt of an erasure with Python's own library alone: python3 verify_receipt.py receipt.json jwks.json

`receipt.json` is a receipt, or the coupon that holds it; `jwks.json` what /.well-known/jwks.json gave on a day when it was
trusted. Exit code 0: valid. What is checked, and what that means, stands in docs/verifying.md. The Ed25519 below is the
reference of RFC 8032: slow, and made for checking only.
"""

import base64
import hashlib
import json
import sys

# Ed25519 (RFC 8032, 5.1.7) over the curve's field, in extended coordinates.
P = 2**255 - 19
Q = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
ROOT = pow(2, (P - 1) // 4, P)


def add(a, b):
    e, f = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    g, h = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    e, f, g, h = f - e, h - g, h + g, f + e
    return e * f % P, g * h % P, f * g % P, e * h % P


def times(scalar, point):
    sum_ = (0, 1, 1, 0)
    while scalar > 0:
        if scalar & 1:
            sum_ = add(sum_, point)
        point, scalar = add(point, point), scalar >> 1
    return sum_


def point_of(data):
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & (2**255 - 1)
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P != 0:
        x = x * ROOT % P
    if (x * x - square) % P != 0 or (x == 0 and sign == 1):
        return None
    x = P - x if x & 1 != sign else x
    return x, y, 1, x * y % P


BASE = point_of((4 * pow(5, -1, P) % P).to_bytes(32, "little"))


def is_signed(key, message, signature):
    if len(key) != 32 or len(signature) != 64:
        return False
    a, r, s = point_of(key), point_of(signature[:32]), int.from_bytes(signature[32:], "little")
    if a is None or r is None or s >= Q:
        return False
    h = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % Q
    left, right = times(s, BASE), add(r, times(h, a))
    return (left[0] * right[2] - right[0] * left[2]) % P == 0 and (left[1] * right[2] - right[1] * left[2]) % P == 0


def canonical(value):
    """RFC 8785: members sorted by UTF-16 code units. A receipt holds no fractions."""
    if isinstance(value, dict):
        members = sorted(value.items(), key=lambda member: member[0].encode("utf-16-be"))
        return "{" + ",".join(canonical(name) + ":" + canonical(member) for name, member in members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, float):
        raise ValueError("it holds a fraction, which no receipt does")
    return json.dumps(value, ensure_ascii=False)


def decoded(text):
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    # One signature, and one key, has one spelling.
    if base64.urlsafe_b64encode(data).rstrip(b"=").decode() != text:
        raise ValueError("it holds something that is not base64url")
    return data


def thumbprint(key):
    """RFC 7638: what a key is named by."""
    named = json.dumps({"crv": key["crv"], "kty": key["kty"], "x": key["x"]}, separators=(",", ":"))
    return base64.urlsafe_b64encode(hashlib.sha256(named.encode()).digest()).rstrip(b"=").decode()


def check(receipt, key_set):
    if sorted(receipt) != ["alg", "kid", "payload", "sig"]:
        raise ValueError("it has other members than payload, alg, kid and sig")
    payload = receipt["payload"]
    if receipt["alg"] != "EdDSA":
        raise ValueError("it is not signed with EdDSA")
    version = payload.get("v")
    if version not in (1, 2, 3) or isinstance(version, bool):
        raise ValueError("its payload has a version that this program does not know")
    keys = [key for key in key_set["keys"] if key.get("kid") == receipt["kid"] and (key.get("kty"), key.get("crv")) == ("OKP", "Ed25519") and thumbprint(key) == key["kid"]]
    if not keys:
        raise ValueError(f"the key set has no key {receipt['kid']}")
    message = f"palimpsest-erasure-receipt-v{version}\0{canonical(payload)}".encode()
    if not is_signed(decoded(keys[0]["x"]), message, decoded(receipt["sig"])):
        raise ValueError("the signature does not hold")
    if payload["evidence"]["traces"]["hits"] != 0:
        raise ValueError("it does not say that nothing was found")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        given = json.load(file)
    with open(sys.argv[2], encoding="utf-8") as file:
        key_set = json.load(file)
    receipt = given.get("receipt", given)
    try:
        check(receipt, key_set)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        print(f"NOT valid: {error}")
        return 1
    print(f"valid: {receipt['payload']['erasure_id']} of {receipt['payload']['db']}, signed by {receipt['kid']}")
    return 0


sys.exit(main())
