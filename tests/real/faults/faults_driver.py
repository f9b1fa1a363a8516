"""Serves commands with a real engine: `faults_driver.py CONFIG.json` connects to the socket that CONFIG names; a line is a command, a line an answer.

Every command runs as soon as it comes, so that requests overlap; an answer carries the number of its command.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

DEFAULTS = {
    "device": "cpu",
    "load_format": "dummy",
    "skip_tokenizer_init": True,
    "attention_backend": "torch_native",
    "sampling_backend": "pytorch",
    "disable_cuda_graph": True,
    "disable_overlap_schedule": True,
    "page_size": 16,
    "max_total_tokens": 4096,
    "enable_hierarchical_cache": True,
    "hicache_ratio": 2,
    "hicache_io_backend": "direct",
    "hicache_mem_layout": "page_first_direct",
    "hicache_write_policy": "write_through",
    "hicache_storage_backend": "mooncake",
    "hicache_storage_prefetch_policy": "wait_complete",
    "enable_cache_report": True,
    "log_level": "warning",
}


def main():
    """Build the engine of CONFIG, serve until told to stop, shut it down."""
    import sglang  # noqa: PLC0415 - its child processes import this file again and do not need it

    config = json.loads(Path(sys.argv[1]).read_text())
    settings = {"model_path": os.environ["HICACHECTL_LAB_MODEL"], **DEFAULTS, **config["engine"]}
    engine = sglang.Engine(**settings)
    try:
        engine.loop.run_until_complete(serve(engine, config["socket"]))
    finally:
        engine.shutdown()


async def serve(engine, path):
    """Answer commands until `stop` or the end of the connection."""
    reader, writer = await asyncio.open_unix_connection(path, limit=1 << 24)
    stopped = asyncio.Event()
    tasks = set()

    async def answer(command):
        number = command.pop("number")
        try:
            found = await COMMANDS[command.pop("do")](engine, **command)
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}"}
        writer.write(json.dumps({"number": number, **found}).encode() + b"\n")
        await writer.drain()

    async def listen():
        while line := await reader.readline():
            command = json.loads(line)
            if command["do"] == "stop":
                break
            task = asyncio.create_task(answer(command))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        stopped.set()

    writer.write(json.dumps({"ready": os.getpid()}).encode() + b"\n")
    listening = asyncio.create_task(listen())
    await stopped.wait()
    await listening
    writer.close()


async def generate(engine, prompts, rids, new=4, extra_key=None):
    """Requests sent together; PROMPTS are lists of token ids."""
    sampling = {"max_new_tokens": new, "temperature": 0, "ignore_eos": True}
    if extra_key is None:
        answers = await engine.async_generate(input_ids=prompts, sampling_params=[sampling] * len(prompts), rid=rids)
    else:
        from sglang.srt.managers.io_struct import GenerateReqInput  # noqa: PLC0415 - the engine's own methods take no extra key

        asked = GenerateReqInput(input_ids=prompts, sampling_params=[sampling] * len(prompts), rid=rids, extra_key=extra_key)
        answers = await anext(engine.tokenizer_manager.generate_request(asked, None))
    return {
        "answers": {
            answer["meta_info"]["id"]: {
                "output": answer["output_ids"],
                "cached_tokens": answer["meta_info"].get("cached_tokens"),
                "details": answer["meta_info"].get("cached_tokens_details"),
            }
            for answer in answers
        }
    }


async def flush(engine):
    """Empty device and host."""
    return {"success": (await engine.tokenizer_manager.flush_cache()).success}


async def clear(engine):
    """Ask the backend to remove everything."""
    return {"success": (await engine.tokenizer_manager.clear_hicache_storage()).success}


async def attach(engine, backend="mooncake", extra=None, prefetch=None, write=None):
    """Attach a storage backend, or change the policies of the one in use."""
    told = await engine.tokenizer_manager.attach_hicache_storage(backend, json.dumps(extra) if extra else None, prefetch, write)
    return {"success": told.success, "message": told.message}


async def detach(engine):
    """Detach the storage backend."""
    told = await engine.tokenizer_manager.detach_hicache_storage()
    return {"success": told.success, "message": told.message}


async def abort(engine, rid):
    """Abort a request."""
    engine.tokenizer_manager.abort_request(rid=rid)
    return {}


COMMANDS = {"generate": generate, "flush": flush, "clear": clear, "attach": attach, "detach": detach, "abort": abort}

if __name__ == "__main__":
    main()
