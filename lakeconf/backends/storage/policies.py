"""What the consoles of S3, R2, Google Cloud Storage and Azure take to give a role access to the files of a lake."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping

from lakeconf.backends.backend import Role

# A writer deletes nothing: what a failed write leaves is removed by a maintainer's cleanup.
_S3_ACTIONS: Mapping[Role, tuple[str, ...]] = {
    "reader": ("s3:GetObject",),
    "writer": ("s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"),
    "maintainer": ("s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload", "s3:DeleteObject"),
}
_KMS_ACTIONS: Mapping[Role, tuple[str, ...]] = {
    "reader": ("kms:Decrypt",),
    "writer": ("kms:Decrypt", "kms:GenerateDataKey"),
    "maintainer": ("kms:Decrypt", "kms:GenerateDataKey"),
}
# Who writes to R2 can delete. Source of the ids: https://developers.cloudflare.com/r2/api/tokens/
_R2_READ = {"id": "6a018a9f2fc74eb6b293b0c548f38b39", "name": "Workers R2 Storage Bucket Item Read"}
_R2_WRITE = {"id": "2efd5506f9c8494dacb1fa10a3e7d5b6", "name": "Workers R2 Storage Bucket Item Write"}
# https://cloud.google.com/storage/docs/access-control/iam-roles
_GCS_ROLES: Mapping[Role, tuple[str, ...]] = {
    "reader": ("roles/storage.objectViewer",),
    "writer": ("roles/storage.objectViewer", "roles/storage.objectCreator"),
    "maintainer": ("roles/storage.objectUser",),
}

# Who writes to a container can delete. Source:
# https://learn.microsoft.com/azure/role-based-access-control/built-in-roles/storage
_AZURE_ROLES: Mapping[Role, str] = {
    "reader": "Storage Blob Data Reader",
    "writer": "Storage Blob Data Contributor",
    "maintainer": "Storage Blob Data Contributor",
}


def s3_policy(role: Role, bucket: str, folder: str, region: str | None, kms_key: str | None) -> str:
    """The policy of an IAM user or role, for a folder that is empty or ends in `/`."""
    arn = f"arn:{_partition(region or '')}:s3:::{_unmatched(bucket)}"
    listing: dict[str, object] = {"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": arn}
    if folder:
        listing["Condition"] = {"StringLike": {"s3:prefix": [_unmatched(folder).rstrip("/"), f"{_unmatched(folder)}*"]}}
    files = {"Effect": "Allow", "Action": _S3_ACTIONS[role], "Resource": f"{arn}/{_unmatched(folder)}*"}
    statements = [listing, files]
    if kms_key is not None and kms_key.startswith("arn:"):
        statements.append({"Effect": "Allow", "Action": _KMS_ACTIONS[role], "Resource": kms_key})
    return _json({"Version": "2012-10-17", "Statement": statements})


def _unmatched(folder: str) -> str:
    """A folder in a policy, in which `*`, `?` and `$` stand for themselves."""
    return "".join(f"${{{character}}}" if character in "*?$" else character for character in folder)


def _partition(region: str) -> str:
    return "aws-cn" if region.startswith("cn-") else "aws-us-gov" if region.startswith("us-gov-") else "aws"


def r2_policy(role: Role, bucket: str, account: str | None, endpoint: str | None) -> str:
    """The request that makes an API token for a bucket: a token has no smaller scope."""
    jurisdiction = re.search(r"\.(eu|fedramp)\.r2\.", endpoint or "")
    place = jurisdiction[1] if jurisdiction else "default"
    resource = f"com.cloudflare.edge.r2.bucket.{account or 'ACCOUNT_ID'}_{place}_{bucket}"
    groups = [_R2_READ] if role == "reader" else [_R2_WRITE]
    policy = {"effect": "allow", "resources": {resource: "*"}, "permission_groups": groups}
    return _json({"name": f"{bucket} {role}", "policies": [policy]})


def gcs_policy(role: Role, bucket: str, folder: str) -> str:
    """The commands for a service account, whose HMAC key the store uses."""
    place = shlex.quote(f"gs://{bucket}/{folder}" if folder else f"gs://{bucket}")
    kind = "managed-folders" if folder else "buckets"
    member = '--member="serviceAccount:$SERVICE_ACCOUNT"'
    commands = [f"gcloud storage managed-folders create {place}"] if folder else []
    commands += [
        f"gcloud storage {kind} add-iam-policy-binding {place} {member} --role={name}" for name in _GCS_ROLES[role]
    ]
    return "\n".join(commands)


def azure_policy(role: Role, account: str, container: str) -> str:
    """The command for a user, a group or a service principal; a container is the smallest scope."""
    id_of_account = f"$(az storage account show --name {account} --query id --output tsv)"
    scope = f'"{id_of_account}/blobServices/default/containers/{container}"'
    return f'az role assignment create --assignee "$PRINCIPAL" --role "{_AZURE_ROLES[role]}" --scope {scope}'


def _json(document: object) -> str:
    return json.dumps(document, indent=2)
