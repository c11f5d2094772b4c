"""The patterns of the model's texts, and the words in which a fault describes each."""

from __future__ import annotations

_STEP = r"[A-Za-z0-9._-]*[A-Za-z0-9_-][A-Za-z0-9._-]*"  # not "." or "..": rules compare paths as text
_IAM_NAME = r"[A-Za-z0-9_+=,.@/-]*[A-Za-z0-9_+=,.@-]"

NAME = r"^[a-z][a-z0-9-]*[a-z0-9]$"
MOUNT_PATH = rf"^/{_STEP}(/{_STEP})*$"
FILE_SYSTEM_PATH = rf"^/({_STEP}(/{_STEP})*)?$"
WEEKLY_TIME = r"^[1-7]:([01]\d|2[0-3]):([0-5]\d)$"
DAILY_TIME = r"^([01]\d|2[0-3]):([0-5]\d)$"
ACCOUNT = r"^\d{12}$"
REGION = r"^[a-z]{2}(-[a-z]+)+-\d$"
CIDR = r"^\d{1,3}(\.\d{1,3}){3}/\d{1,2}$"
ZONE_ID = r"^[a-z]+\d-az\d$"
VPC = r"^vpc-[0-9a-f]{8,17}$"
SUBNET = r"^subnet-[0-9a-f]{8,17}$"
INSTANCE_TYPE = r"^[a-z0-9-]+\.[a-z0-9-]+$"
AMI = r"^ami-[0-9a-f]{8,17}$"
RESERVATION = r"^cr-[0-9a-f]{8,17}$"
RESERVATION_GROUP = r"^arn:aws[a-z-]*:resource-groups:[a-z0-9-]+:\d{12}:group/[A-Za-z0-9_.-]+$"
KEY_NAME = r"^[A-Za-z0-9_.:/()#,@+=;-]+( [A-Za-z0-9_.:/()#,@+=;-]+)*$"
SECRET_ARN = r"^arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:\d{12}:secret:[A-Za-z0-9/_+=.@-]+$"  # noqa: S105 - a pattern
DATABASE_USER = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$"
DATABASE = r"^[0-9a-z_]+$"
API_URL = r"^https://[A-Za-z0-9.-]+(:\d{1,5})?(/[A-Za-z0-9._~-]+)+$"
ROLE = rf"^arn:aws[a-z-]*:iam::\d{{12}}:role/{_IAM_NAME}$"
POLICY = rf"^arn:aws[a-z-]*:iam::(\d{{12}}|aws):policy/{_IAM_NAME}$"
REPOSITORY = r"^[a-z0-9]+([._/-][a-z0-9]+)*$"
TAG = r"^[A-Za-z0-9_][A-Za-z0-9._-]*$"
PREFIX = r"^([A-Za-z0-9!_.*'()-]*[A-Za-z0-9!_*'()-][A-Za-z0-9!_.*'()-]*/)*$"
CONNECTION = r"^arn:aws[a-z-]*:(codeconnections|codestar-connections):[a-z0-9-]+:\d{12}:connection/[0-9a-f-]{36}$"
OWNED_REPOSITORY = r"^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)+$"
BRANCH = r"^[A-Za-z0-9_][A-Za-z0-9._/-]*$"
EMAIL = r"^[^@\s]+@[^@\s]+\.[^@\s.]+$"
BUCKET_PREFIX = r"^[a-z0-9][a-z0-9-]{1,28}[a-z0-9]$"

MEANINGS = {
    NAME: "two or more lower-case letters, digits and hyphens, starting with a letter, not ending with a hyphen",
    MOUNT_PATH: "an absolute path without a trailing slash: letters, digits, dots, _ and -, for example /fsx",
    FILE_SYSTEM_PATH: "/ or an absolute path inside the file system without a trailing slash, for example /data",
    WEEKLY_TIME: "day:HH:MM in UTC, Monday is 1, for example 7:18:00",
    DAILY_TIME: "HH:MM in UTC, for example 16:00",
    ACCOUNT: "an account id, 12 digits in quotes",
    REGION: "a region, for example us-east-1",
    CIDR: "an IPv4 network, for example 10.0.0.0/16",
    ZONE_ID: "a zone id (not a zone name), for example use1-az4",
    VPC: "a VPC id, vpc- and 8 to 17 hexadecimal digits",
    SUBNET: "a subnet id, subnet- and 8 to 17 hexadecimal digits",
    INSTANCE_TYPE: "an instance type, for example p5.48xlarge",
    AMI: "an image id, ami- and 8 to 17 hexadecimal digits",
    RESERVATION: "a capacity reservation id, cr- and 8 to 17 hexadecimal digits",
    RESERVATION_GROUP: "the ARN of a resource group, arn:aws:resource-groups:<region>:<account>:group/<name>",
    KEY_NAME: "a key pair's name: letters, digits, single spaces and _ . : / ( ) # , @ + = ; -",
    SECRET_ARN: "the ARN of a secret, arn:aws:secretsmanager:<region>:<account>:secret:<name>",
    DATABASE_USER: "a database user: letters, digits, dots, _ and -, starting with a letter, digit or _",
    DATABASE: "a database name: lower-case letters, digits and _",
    API_URL: "the API URL with its stage, for example https://<id>.execute-api.<region>.amazonaws.com/prod",
    ROLE: "the ARN of a role, arn:aws:iam::<account>:role/<name>",
    POLICY: "the ARN of one policy, arn:aws:iam::<account>:policy/<name>",
    REPOSITORY: "lower-case letters and digits, parts separated by one of . _ / -",
    TAG: "letters, digits, dots, _ and -, not starting with a dot or -",
    PREFIX: "folders that each end in a slash, for example checkpoints/ (empty for the whole bucket)",
    CONNECTION: "the ARN of a connection, arn:aws:codeconnections:<region>:<account>:connection/<id>",
    OWNED_REPOSITORY: "<owner>/<repository>",
    BRANCH: "a branch name: letters, digits, dots, _ / and -, not starting with a dot or -",
    EMAIL: "an e-mail address",
    BUCKET_PREFIX: "3 to 30 lower-case letters, digits and hyphens, starting and ending with a letter or digit",
}
