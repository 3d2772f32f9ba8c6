"""Signatures that a receiver's own library accepts, and keys that are not shown."""

from base64 import b64encode

import pytest

from dueledger.workers.http.webhook import read_keys, sign

KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + b64encode(bytes(range(32))).decode()


def test_the_specifications_own_example_is_signed_as_it_says() -> None:
    signature = sign(
        read_keys(KEY), "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
    )
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_while_one_key_replaces_another_both_sign_the_newer_one_first() -> None:
    both = sign(read_keys(f"{OTHER} {KEY}"), "id", 1, b"body")
    assert (
        both
        == f"{sign(read_keys(OTHER), 'id', 1, b'body')} {sign(read_keys(KEY), 'id', 1, b'body')}"
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "1 to 4 keys"),
        (" ".join([KEY] * 5), "1 to 4 keys"),
        ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "must begin with whsec_"),
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa!w", "base64"),
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS", "base64"),
        ("whsec_" + b64encode(bytes(23)).decode(), "24 to 64 bytes"),
        ("whsec_" + b64encode(bytes(65)).decode(), "24 to 64 bytes"),
    ],
)
def test_what_is_no_key_is_refused_without_quoting_it(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as refused:
        read_keys(text)
    assert not text or text not in str(refused.value)


def test_a_key_does_not_show_itself() -> None:
    (key,) = read_keys(KEY)
    assert repr(key) == "SigningKey()"
