"""Made-up accounts of Google Cloud and AWS."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

TOKEN = {"access_token": "ya29.secret-token", "expires_in": 3600, "token_type": "Bearer"}
"""What a token server answers."""

AWS_SECRET = "wJalrXUtnFEMI/K7MDENG"
AWS = {
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": AWS_SECRET,
    "AWS_SESSION_TOKEN": "session",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/nowhere",
    "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
}
"""The environment of an AWS account."""


@cache
def _private_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    kind = serialization.PrivateFormat.PKCS8
    none = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, kind, none).decode()


def google_account(path: Path, token_url: str) -> dict[str, str]:
    """Write a service account whose tokens come from a URL. Returns its environment."""
    account = {"type": "service_account", "client_email": "me@p.iam", "project_id": "p"}
    path.write_text(json.dumps(account | {"private_key": _private_key(), "token_uri": token_url}))
    return {"GOOGLE_APPLICATION_CREDENTIALS": str(path)}
