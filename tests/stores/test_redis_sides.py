"""What is done when a Redis store is made, so that no request has to wait for it or to fail on it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ratelimit_middleware.errors import StoreError
from ratelimit_middleware.stores.redis import RedisStore


@pytest.mark.parametrize("url", ["redis://h", "redis+cluster://h", "redis+sentinel://h/limits"])
def test_redis_py_is_loaded_with_the_store_and_not_within_the_time_of_the_first_call(url: str) -> None:
    code = (
        "import sys\n"
        "from ratelimit_middleware.stores.redis import RedisStore\n"
        f"RedisStore({url!r})\n"
        "print('redis' in sys.modules, 'redis.asyncio' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True True\n"


@pytest.mark.parametrize("name", ["ssl_ca_certs", "ssl_certfile", "ssl_keyfile"])
def test_a_file_for_tls_that_is_not_there_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=f"^{name}={tmp_path}/no.pem: there is no such file"):
        RedisStore(f"rediss://localhost?{name}={tmp_path}/no.pem")
    (tmp_path / "no.pem").touch()
    RedisStore(f"rediss://localhost?{name}={tmp_path}/no.pem").close()
