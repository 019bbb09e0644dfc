"""Makes packed/ and parquet/: small files as other programs write them.

    python3 make_data.py     # needs pyarrow and the zstd command
"""
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

here = Path(__file__).parent
(here / "packed").mkdir(exist_ok=True)
(here / "parquet").mkdir(exist_ok=True)

text = here / "packed" / "text"
text.write_text("shunya " * 50_000)
subprocess.run(["zstd", "-19", "-f", "-q", str(text), "-o", str(text) + ".zst"], check=True)
text.unlink()

texts = [f"document {i}: शून्य" + " and more" * (i % 5) for i in range(300)]
table = pa.table({"id": pa.array(range(300), pa.int32()), "text": texts, "meta": [{"n": i} for i in range(300)]})
for compression in ["snappy", "zstd", "gzip", "lz4", "brotli", "none"]:
    # Three row groups; pages with dictionaries and without, of both versions.
    pq.write_table(
        table,
        here / "parquet" / f"{compression}.parquet",
        compression=compression,
        row_group_size=100,
        use_dictionary=compression in ("snappy", "zstd"),
        data_page_version="2.0" if compression in ("zstd", "gzip") else "1.0",
    )
odd = pa.table({"text": ["a", None, "", "b"], "number": [1, 2, 3, 4], "list": [["x"], [], None, ["y", "z"]]})
pq.write_table(odd, here / "parquet" / "odd.parquet", compression="none")
raw = pa.table({"text": pa.array([b"fine", b"caf\xe9", b"end"], pa.binary())})
pq.write_table(raw, here / "parquet" / "bytes.parquet", compression="none")
pq.write_table(table.slice(0, 0), here / "parquet" / "empty.parquet", compression="none")
said = [["aaa", "bbbbb"], ["cc", "dddd"]]
chats = [[{"role": role, "content": text} for role, text in zip(("user", "assistant"), texts)] for texts in said]
pq.write_table(pa.table({"id": [1, 2], "messages": chats}), here / "parquet" / "chats.parquet", compression="snappy")
