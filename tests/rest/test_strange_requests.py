"""No request breaks the embedded server: whatever arrives, the answer is well-formed and names no internal error."""

from __future__ import annotations

import json
import random

import aiohttp
import pytest

from restow.adapters.clock import SystemClock
from restow.adapters.memory import MemoryApi
from restow.adapters.rest import serve
from restow.adapters.rest.protobuf import MAGIC, MEDIA_TYPE
from restow.ports import APPLY_PATCH, JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH

SEGMENTS = [
    *("api", "apis", "v1", "apps", "policy", "batch", "namespaces", "default", "pods", "nodes", "deployments", "x"),
    *("status", "scale", "eviction", "binding", "log", "finalize", "openapi", "v3", "version", "", "%2F", "%00", "é"),
    *("events", "events.k8s.io", "customresourcedefinitions", "apiextensions.k8s.io", "metrics.k8s.io", "v1beta1"),
]
STARTS = ["/api/v1/", "/api/v1/namespaces/default/", "/apis/apps/v1/namespaces/default/", "/apis/", "/", "/openapi/v3/"]
QUERIES = [
    *("", "watch=true&timeoutSeconds=1", "limit=-1", "limit=x", "labelSelector=a%20in", "fieldSelector=no=1"),
    *(
        "resourceVersion=-4",
        "resourceVersion=zz",
        "continue=%00",
        "dryRun=Half",
        "fieldValidation=Loud",
        "timeoutSeconds=x",
    ),
    *(
        "sendInitialEvents=true",
        "includeObject=All",
        "pretty=true",
        "watch=maybe",
        "force=perhaps",
        "gracePeriodSeconds=-1",
    ),
]
BODIES = [
    *(b"", b"{}", b"[]", b"null", b"1", b'"text"', b"{", b"\xff\xfe", b'{"metadata":1}', b'{"metadata":{"name":5}}'),
    b'{"metadata":{"name":"x"},"spec":7}',
    b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"},"spec":{"containers":[{"name":"a","image":"i"}]}}',
    b'{"kind":"DeleteOptions","gracePeriodSeconds":"soon"}',
    b'[{"op":"remove","path":"/metadata"}]',
    b'[{"op":"copy","from":"/","path":"/x"}]',
    b"a: [1\n",
    b"{" * 5000,
    b'{"a":' * 2000 + b"1" + b"}" * 2000,
    MAGIC + b"\x0a\x08\x0a\x02v1\x12\x02Po\x12\x03\x0a\x01\x00",
]
TYPES = [
    JSON,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    APPLY_PATCH,
    MEDIA_TYPE,
    "application/yaml",
    "text/plain",
    ";;",
]
ACCEPTS = [
    *(
        JSON,
        "*/*",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    ),
    *("image/png", ",,", "application/json;q=2;as=Table"),
]
METHODS = ["GET", "GET", "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "PROPFIND"]


@pytest.mark.parametrize("seed", range(3))
async def test_no_request_breaks_the_server(seed: int) -> None:
    chance = random.Random(seed)
    api = MemoryApi(SystemClock(), random.Random(seed))
    async with await serve(api) as server, aiohttp.ClientSession(server.url) as http:
        for _ in range(250):
            path = chance.choice(STARTS) + "/".join(chance.choices(SEGMENTS, k=chance.randint(0, 4)))
            url = f"{server.url}{path}?{chance.choice(QUERIES)}"
            method, body = chance.choice(METHODS), chance.choice(BODIES)
            headers = {"Content-Type": chance.choice(TYPES), "Accept": chance.choice(ACCEPTS)}
            async with http.request(method, url, data=body, headers=headers) as answer:
                data = await answer.read()
            context = (method, url, headers, body[:200], answer.status, data[:300])
            assert answer.status != 500, context
            if answer.status >= 400 and method != "HEAD":
                assert answer.content_type == JSON, context
                assert json.loads(data)["code"] == answer.status, context
