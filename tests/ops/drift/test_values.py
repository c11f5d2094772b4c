"""References of a template in ids, and expected values against actual ones."""

from typing import Any

import pytest

from ops.drift.values import NOT_KNOWN, Values, compared, explicit, tags
from ops.intrinsics import UNKNOWN
from ops.review.structure import ABSENT

from .stacks import ACCOUNT, REGION, stack_of

INNER = stack_of({}, name="inner", outputs={"Url": "https://api"})
STACK = stack_of(
    {
        "Group": ("AWS::EC2::SecurityGroup", "sg-1", {}),
        "Bucket": ("AWS::S3::Bucket", "data", {}),
        "System": ("AWS::FSx::FileSystem", "fs-1", {}),
        "Api": ("AWS::CloudFormation::Stack", INNER.id, {}),
        "Gone": ("AWS::S3::Bucket", "", {}),
    }
)
VALUES = Values([STACK, stack_of({}, name="other", exports={"other:Subnet": "subnet-1"})], [INNER])


@pytest.mark.parametrize(
    ("value", "resolved"),
    [
        ({"Ref": "Group"}, "sg-1"),
        ({"Ref": "AWS::Region"}, REGION),
        ({"Fn::GetAtt": ["Group", "GroupId"]}, "sg-1"),
        ({"Fn::GetAtt": "Bucket.Arn"}, "arn:aws:s3:::data"),
        ({"Fn::GetAtt": ["Api", "Outputs.Url"]}, "https://api"),
        ({"Fn::ImportValue": "other:Subnet"}, "subnet-1"),
        ({"Fn::Join": ["", ["s3://", {"Ref": "Bucket"}, "/key"]]}, "s3://data/key"),
        ({"Fn::Sub": "${Bucket}-${AWS::AccountId}-${!Kept}"}, f"data-{ACCOUNT}-${{Kept}}"),
        ({"Fn::Select": [1, {"Fn::Split": [":", {"Fn::GetAtt": ["Bucket", "Arn"]}]}]}, "aws"),
        ({"A": {"Ref": "AWS::NoValue"}, "B": [{"Ref": "Bucket"}]}, {"B": ["data"]}),
        ({"Fn::GetAtt": ["System", "RootVolumeId"]}, UNKNOWN),
        ({"Fn::ImportValue": "nowhere"}, UNKNOWN),
        ({"Fn::Join": ["", ["a", {"Fn::GetAtt": ["System", "DNSName"]}]]}, UNKNOWN),
        ({"Ref": "Gone"}, UNKNOWN),
        ({"Fn::FindInMap": ["a", "b", "c"]}, UNKNOWN),
    ],
)
def test_resolve(value: Any, resolved: Any) -> None:  # noqa: ANN401 - JSON
    assert VALUES.within(STACK).resolve(value) == resolved


def test_unknown_equals_every_value() -> None:
    expected = {"Id": UNKNOWN, "List": [{"Name": "a", "Value": UNKNOWN}]}
    assert not list(compared(expected, {"Id": "fs-1", "List": [{"Name": "a", "Value": "b"}]}))
    [gone] = compared(expected, {"List": [{"Name": "a", "Value": "b"}]})
    assert (gone.path, gone.old, gone.new) == ("Id", NOT_KNOWN, ABSENT)


def test_scalars_are_compared_as_text() -> None:
    assert not list(compared({"a": 5, "b": True, "c": [1.0]}, {"a": "5", "b": "true", "c": [1]}))
    [other] = compared({"a": 5}, {"a": 6})
    assert (other.path, other.old, other.new) == ("a", "5", "6")


def test_what_a_template_leaves_open_is_not_drift() -> None:
    actual = {"Given": {"a": 1}, "Default": 7}
    assert not list(explicit({"Given": {"a": 1}}, actual))
    deep = {"Metadata": {"Mode": "AUTOMATIC"}, "Clients": [{"Range": "10.0.0.0/8"}]}
    filled = {"Metadata": {"Mode": "AUTOMATIC", "Iops": 1500}, "Clients": [{"Range": "10.0.0.0/8", "Options": []}]}
    assert not list(explicit(deep, filled))
    [more] = explicit(deep, {**filled, "Clients": [*filled["Clients"], {"Range": "0.0.0.0/0"}]})
    assert (more.path, more.old) == ("Clients[1]", ABSENT)
    [inner, whole] = explicit({"Given": {"a": 2}, "Other": "x"}, actual)
    assert (inner.path, inner.old, inner.new) == ("Given.a", "2", "1")
    assert (whole.path, whole.new) == ("Other", ABSENT)


def test_tags() -> None:
    found = list(tags({"a": "1", "b": "2"}, {"b": "3", "c": "4", "aws:cloudformation:stack-id": "x"}))
    assert [(item.path, item.old, item.new) for item in found] == [
        ("Tags[a]", "1", ABSENT),
        ("Tags[b]", "2", "3"),
        ("Tags[c]", ABSENT, "4"),
    ]
