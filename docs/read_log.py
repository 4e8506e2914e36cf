#!/usr/bin/env python3
"""Print the events of an s3log log from a directory: the embedded store, or a synced bucket.

    read_log.py DIRECTORY LOG

It needs the zstd command, and shows that docs/format.md is enough to read a log: all events,
those in the manifest's tail included, after every checksum, the seqs and the Merkle root.
"""
import base64, hashlib, json, pathlib, re, subprocess, sys

sys.setrecursionlimit(50_000)  # events may nest 10,000 deep


def escape(log_id):
    raw = log_id.encode()
    esc = re.sub(rb"[^A-Za-z0-9._-]|^\.", lambda m: b"=%02X" % m[0][0], raw, flags=re.S).decode()
    return esc if len(esc) <= 200 else esc[:120] + "==" + hashlib.sha256(raw).hexdigest()[:32]


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def check(ok, what):
    if not ok:
        sys.exit(f"read_log: {what}")


def inflate(frames):  # zstd checks the frames' checksums and passes over a segment's index
    return subprocess.run(["zstd", "-dcq"], input=frames, stdout=subprocess.PIPE, check=True).stdout


def merkle_root(hashes):  # RFC 6962; an odd hash at the end moves up as it is
    while len(hashes) > 1:
        pairs = (hashes[i:i + 2] for i in range(0, len(hashes), 2))
        hashes = [hashlib.sha256(b"\1" + b"".join(p)).digest() if len(p) == 2 else p[0] for p in pairs]
    return hashes[0] if hashes else hashlib.sha256(b"").digest()


def parts(root, esc, m):  # the lines of each segment, then those of the tail
    for name, count, size, raw, sha256 in m["segments"]:
        obj = (root / "segments" / esc / name).read_bytes()
        check(len(obj) == size and hashlib.sha256(obj).hexdigest() == sha256, f"{name} is damaged")
        text = inflate(obj)
        check(len(text) == raw and text.count(b"\n") == count, f"{name} holds other events")
        yield text
    if m["tail"]:
        yield inflate(base64.b64decode(m["tail"], validate=True))


def events(root, log_id):
    body = (root / "manifests" / f"{escape(log_id)}.json").read_bytes()
    head, _, end = body.rpartition(b',"sum":"')
    check(end == b'%08x"}\n' % crc32c(head), "the manifest's sum is wrong")
    m = json.loads(body)
    check(m["format"] == "s3log.manifest" and m["log"] == log_id, f"not a manifest of {log_id!r}")
    check(m["version"] == 1 and not m["critical"], "a newer program is needed")
    check(m["state"] == "open", f"the log is {m['state']}")
    leaves = []
    for text in parts(root, escape(log_id), m):
        *lines, rest = text.split(b"\n")
        check(not rest, "the last line does not end")
        for line in lines:
            check(json.loads(line, parse_int=str)["seq"] == str(len(leaves)), f"seq {len(leaves)} is not there")
            leaves.append(hashlib.sha256(b"\0" + line).digest())
            yield line + b"\n"
    check(len(leaves) == m["next"], f"{len(leaves)} events, the manifest says {m['next']}")
    check(merkle_root(leaves).hex() == m["tree"]["root"], "the Merkle root is another one")


if __name__ == "__main__":
    check(len(sys.argv) == 3, "usage: read_log.py DIRECTORY LOG")
    sys.stdout.buffer.writelines(events(pathlib.Path(sys.argv[1]), sys.argv[2]))
