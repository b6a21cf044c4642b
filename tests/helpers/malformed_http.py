"""Malformed, ambiguous or unusual requests, and the answers that every port has to give.

``/smuggled`` is the target of a request that must not be served: it is part of another request, or
follows the end of the connection.

Source: RFC 9110; RFC 9112, above all 6 (framing) and 11.2 (request smuggling).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

ANSWERED = "answered"  # by the application
Answers = tuple[str, ...]  # ANSWERED or the status of a refusal, in order
SMUGGLED = "/smuggled"

_HOST = b"Host: port\r\n"
_GET = b"GET /health-check HTTP/1.1\r\n" + _HOST
_POST = b"POST /health-check HTTP/1.1\r\n" + _HOST
_CHUNKED = _POST + b"Transfer-Encoding: chunked\r\n\r\n"
_CHUNKS = b"5\r\nhello\r\n0\r\n\r\n"
_SMUGGLED = b"GET /smuggled HTTP/1.1\r\n" + _HOST + b"\r\n"
_LONGEST_REQUEST = timedelta(seconds=30)
_MOST_PIPELINED = 33  # one in progress and 32 waiting

LAST = b"GET /smuggled HTTP/1.1\r\n" + _HOST + b"Connection: close\r\n\r\n"
"""The request that follows each shape on the same connection."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The bytes that a client sends, and the answers that it may get.

    ``answers``: the permitted numbers of answers of the application to the shape itself. If
    ``followed``, LAST follows the shape and gets one more answer.
    """

    id: str
    sent: bytes
    allowed: frozenset[Answers]
    waits: timedelta = timedelta()  # until the server stops waiting for the rest
    followed: bool = True
    answers: int = 1

    @property
    def is_small(self) -> bool:
        """Return whether it can be sent byte by byte."""
        return len(self.sent) < 2000


def _refused(what: str, sent: bytes, status: int = 400, *, late: bool = False) -> Shape:
    """Expect a refusal and the end of the connection.

    ``late``: the error comes after the head. An application that needs no body may answer before.
    """
    allowed: set[Answers] = {(str(status),)} | ({(ANSWERED,)} if late else set())
    return Shape(id=f"{what}: refused with {status}", sent=sent, allowed=frozenset(allowed))


def _endless(what: str, sent: bytes, *, late: bool = False) -> Shape:
    """Expect a refusal before the line ends."""
    return replace(_refused(what, sent, 431, late=late), followed=False)


def _unfinished(what: str, sent: bytes, *, late: bool = False) -> Shape:
    """Expect a refusal after the timeout of a request, and the end of the connection."""
    allowed: set[Answers] = {("408",)} | ({(ANSWERED,)} if late else set())
    return Shape(
        id=f"{what}: waited for, then refused with 408",
        sent=sent,
        allowed=frozenset(allowed),
        waits=_LONGEST_REQUEST,
        followed=False,
    )


def _last(what: str, sent: bytes) -> Shape:
    """Expect one answer and the end of the connection."""
    return Shape(
        id=f"{what}: answered, and the connection closed",
        sent=sent,
        allowed=frozenset({(ANSWERED,)}),
    )


def _served(what: str, sent: bytes, answers: int = 1) -> Shape:
    """Expect this many answers, and one more to the request that follows."""
    allowed = frozenset({(ANSWERED,) * (answers + 1)})
    return Shape(id=f"{what}: answered", sent=sent, allowed=allowed, answers=answers)


def _lengths() -> Iterator[Shape]:
    """Yield Content-Length headers that are not a number, or repeated."""

    def of(value: bytes) -> bytes:
        return _POST + b"Content-Length:" + value + b"\r\n\r\nhello"

    yield _refused("Content-Length without a value", of(b""))
    yield _refused("Content-Length in words", of(b" five"))
    yield _refused("Content-Length with a minus", of(b" -5"))
    yield _refused("Content-Length with a plus", of(b" +5"))
    yield _refused("Content-Length in hexadecimal", of(b" 0x5"))
    yield _refused("Content-Length with a fraction", of(b" 5.0"))
    yield _refused("Content-Length with an exponent", of(b" 5e0"))
    yield _refused("Content-Length with an underscore", of(b" 0_5"))
    yield _refused("Content-Length in quotes", of(b' "5"'))
    yield _refused("Content-Length with a parameter", of(b" 5;"))
    yield _refused("Content-Length with a space inside", of(b" 5 5"))
    yield _refused("Content-Length as a list of equal numbers", of(b" 5, 5"))
    yield _refused("Content-Length in Arabic digits", of(b" \xd9\xa5"))
    yield _refused("Content-Length after a vertical tab", of(b" \x0b5"))
    yield _refused("Content-Length before a NUL", of(b" 5\0"))
    yield _refused("Content-Length of 2^64 + 5", of(b" 18446744073709551621"))
    yield _refused("Content-Length of 5,000 digits", of(b" " + b"0" * 5000 + b"5"))
    yield _refused("Content-Length of a terabyte", of(b" 1099511627776"), 413)
    yield _served("Content-Length between spaces and tabs", of(b" \t 5 \t "))
    yield _served("Content-Length with leading zeros", of(b" 0005"))
    two = b"Content-Length: 5\r\nContent-Length: %d\r\n\r\nhello"
    yield _refused("two equal Content-Lengths", _POST + two % 5)
    yield _refused("two different Content-Lengths", _POST + two % (5 + len(LAST)))
    yield _refused(
        "two Content-Lengths, the first of zero",
        _POST + b"Content-Length: 0\r\nContent-Length: %d\r\n\r\n" % len(_SMUGGLED) + _SMUGGLED,
    )
    yield _unfinished("a body shorter than its Content-Length", of(b" 6"), late=True)
    yield _served(
        "a GET request whose body is another request",
        _GET + b"Content-Length: %d\r\n\r\n" % len(_SMUGGLED) + _SMUGGLED,
    )


def _encodings() -> Iterator[Shape]:
    """Yield Transfer-Encoding headers, alone and beside a Content-Length."""

    def of(*values: bytes, before: bytes = b"", after: bytes = b"") -> bytes:
        lines = b"".join(b"Transfer-Encoding:%b\r\n" % value for value in values)
        return _POST + before + lines + after + b"\r\n" + _CHUNKS

    plain = of(b" chunked")
    longer = b"Content-Length: %d\r\n" % (len(_CHUNKS) + len(LAST))
    yield _refused("Content-Length before chunked (CL.TE)", of(b" chunked", before=longer))
    yield _refused(
        "Content-Length after chunked (TE.CL)", of(b" chunked", after=b"Content-Length: 3\r\n")
    )
    yield _refused(
        "Content-Length beside an empty Transfer-Encoding",
        of(b"", after=b"Content-Length: %d\r\n" % len(_CHUNKS)),
    )
    yield _refused(
        "Content-Length before Transfer-Encoding: identity", of(b" identity", before=longer)
    )
    yield _refused("chunked twice in two headers (TE.TE)", of(b" chunked", b" chunked"))
    yield _refused("chunked twice in one header", of(b" chunked, chunked"))
    yield _refused("chunked before identity", of(b" chunked, identity"))
    yield _refused("chunked before identity, in two headers", of(b" chunked", b" identity"))
    yield _refused("chunked before an empty header", of(b" chunked", b""))
    yield _refused("chunked after an empty header", of(b"", b" chunked"))
    yield _refused("chunked before a comma", of(b" chunked,"))
    yield _refused("chunked after a vertical tab", of(b" \x0bchunked"))
    yield _refused("chunked before a NUL", of(b" chunked\0"))
    yield _refused("chunked on a line of its own", of(b"\r\n chunked"))
    yield _refused("an empty Transfer-Encoding", of(b""))
    yield _refused("a space after Transfer-Encoding", plain.replace(b"g:", b"g :"))
    yield _refused("a tab after Transfer-Encoding", plain.replace(b"g:", b"g\t:"))
    for what, value in {
        "identity": b" identity",
        "gzip": b" gzip",
        "chunked after gzip": b" gzip, chunked",
        "chunked after identity": b" identity, chunked",
        "chunked after a comma": b" ,chunked",
        "chunked with a parameter": b" chunked;q=1",
        "chunked in quotes": b' "chunked"',
        "xchunked": b" xchunked",
        "chunked after a no-break space": b" \xa0chunked",
    }.items():
        yield _refused(f"Transfer-Encoding: {what}", of(value), 501)
    yield _refused("chunked after an unknown encoding, in two headers", of(b" x", b" chunked"), 501)
    yield _refused("chunked after identity, in two headers", of(b" identity", b" chunked"), 501)
    yield _last("chunked in HTTP/1.0", plain.replace(b"HTTP/1.1", b"HTTP/1.0"))
    yield _served("chunked in capitals", of(b" CHUNKED"))
    yield _served("chunked after a tab and before spaces", of(b"\tchunked  "))
    yield _refused("chunked before a tab", of(b" chunked\t"))
    yield _served("a GET request in chunks", plain.replace(b"POST", b"GET"))
    yield _served(
        "an underscore in Transfer_Encoding", _POST + b"Transfer_Encoding: chunked\r\n\r\n"
    )


def _chunks() -> Iterator[Shape]:
    """Yield bodies in chunks."""

    def refused(what: str, chunks: bytes, status: int = 400) -> Shape:
        return _refused(what, _CHUNKED + chunks, status, late=True)

    def first(size: bytes) -> bytes:
        return size + b"\r\nhello\r\n0\r\n\r\n"

    yield refused("a chunk of a negative size", first(b"-5"))
    yield refused("a chunk of a size with a plus", first(b"+5"))
    yield refused("a chunk of a size with a prefix", first(b"0x5"))
    yield refused("a chunk of a size with an underscore", first(b"0_5"))
    yield refused("a chunk of a size that is no number", first(b"5g"))
    yield refused("a chunk without a size", first(b""))
    yield refused("a chunk with a space before its size", first(b" 5"))
    yield refused("a chunk with a space after its size", first(b"5 "))
    yield refused("a chunk of 2^64 + 5 bytes", first(b"10000000000000005"))
    yield _endless("a chunk of a size without end", _CHUNKED + b"0" * 200_000, late=True)
    yield refused("a chunk whose size a line feed ends", b"5\nhello\r\n0\r\n\r\n")
    yield refused("a chunk whose size a carriage return ends", b"5\rhello\r\n0\r\n\r\n")
    yield refused("a chunk longer than its size", b"3\r\nhello\r\n0\r\n\r\n")
    yield refused("a chunk shorter than its size", b"7\r\nhello\r\n0\r\n\r\n")
    yield refused("a chunk without a line end after its data", b"5\r\nhello0\r\n\r\n")
    yield refused("a chunk with a line feed after its data", b"5\r\nhello\n0\r\n\r\n")
    yield refused("a last chunk that line feeds end", b"5\r\nhello\r\n0\n\n")
    yield refused("a chunk extension that a line feed ends", first(b"5;a\n"))
    yield refused("a chunk extension with a carriage return", first(b"5;a\rb"))
    yield refused("a chunk extension with a line break in quotes", first(b'5;a="\r\n"'))
    yield refused("a chunk extension with a control character", first(b"5;a=\x01"))
    yield refused("a chunk extension without a name", first(b"5;"))
    yield _endless("a chunk extension without end", _CHUNKED + b"5;a=" + b"x" * 400_000, late=True)
    yield _served("a chunk extension", _CHUNKED + first(b"5;a=b"))
    yield _served("a chunk extension in quotes", _CHUNKED + first(b'5;a="b;\\"c"'))
    yield _served("chunks of sizes with leading zeros", _CHUNKED + b"0005\r\nhello\r\n000\r\n\r\n")
    yield _unfinished("chunks without the last one", _CHUNKED + b"5\r\nhello\r\n", late=True)
    yield _unfinished("a last chunk without its end", _CHUNKED + b"0\r\n", late=True)
    yield _unfinished("a chunk of 4 GiB that never comes", _CHUNKED + b"100000000\r\nx", late=True)
    yield from _trailers()


def _trailers() -> Iterator[Shape]:
    """Yield fields after the last chunk."""

    def of(trailer: bytes) -> bytes:
        return _CHUNKED + b"5\r\nhello\r\n0\r\n" + trailer + b"\r\n\r\n"

    many = b"\r\n".join(b"X-%d: %b" % (number, b"y" * 1000) for number in range(90))
    yield _served("a trailer", of(b"X: y"))
    yield _served("a Host in a trailer", of(b"Host: another"))
    yield _refused("a Content-Length in a trailer", of(b"Content-Length: 100"), late=True)
    yield _refused("a Transfer-Encoding in a trailer", of(b"Transfer-Encoding: chunked"), late=True)
    yield _refused("a trailer without a colon", of(b"hello"), late=True)
    yield _refused("trailers of 90,000 bytes", of(many), 431, late=True)
    yield _last("Connection: close in a trailer", of(b"Connection: close"))


def _fields() -> Iterator[Shape]:
    """Yield header lines."""

    def of(line: bytes) -> bytes:
        return _POST + line + b"\r\nContent-Length: 5\r\n\r\nhello"

    length = b"Content-Length: %d" % (5 + len(LAST))
    yield _refused("a space before the colon", of(b"X : y"))
    yield _refused("a tab before the colon", of(b"X\t: y"))
    yield _refused("a header over two lines", of(b"X: a\r\n b"))
    yield _refused("a header over two lines with a tab", of(b"X: a\r\n\tb"))
    yield _refused(
        "a space before the first header", b"GET /health-check HTTP/1.1\r\n Host: port\r\n\r\n"
    )
    yield _refused("a carriage return in a value", of(b"X: a\rb"))
    yield _refused("a header after a carriage return", of(b"X: a\r" + length))
    yield _refused("a header after a line feed", of(b"X: a\n" + length))
    yield _refused("two carriage returns", of(b"X: a\r"))
    yield _refused("line feeds alone", of(b"X: a").replace(b"\r\n", b"\n"))
    yield _refused("a line feed that ends the headers", _POST + b"Content-Length: 5\r\n\nhello")
    yield _refused(
        "a carriage return that ends the headers", _POST + b"Content-Length: 5\r\n\rhello"
    )
    for what, character in {
        "NUL": b"\0",
        "a backspace": b"\x08",
        "a vertical tab": b"\x0b",
        "a form feed": b"\x0c",
        "an escape": b"\x1b",
        "DEL": b"\x7f",
    }.items():
        yield _refused(f"{what} in a value", of(b"X: a%bb" % character))
        yield _refused(f"{what} in a name", of(b"X%bY: a" % character))
    yield _refused("a space in a name", of(b"X Y: a"))
    yield _refused("a slash in a name", of(b"X/Y: a"))
    yield _refused("a name that isn't ASCII", of("é: a".encode()))
    yield _refused("a header without a name", of(b": a"))
    yield _refused("a header without a colon", of(b"hello"))
    yield _served("a header without a value", of(b"X:"))
    yield _served("a tab in a value", of(b"X: a\tb"))
    yield _served("a value that isn't ASCII", of(b"X: \xff\xfe"))
    yield _refused("101 headers", of(b"\r\n".join([b"X: y"] * 99)), 431)
    yield _refused("headers of 90,000 bytes", of(b"\r\n".join([b"X: " + b"y" * 1000] * 90)), 431)
    yield _refused("a header of 64 KiB", of(b"X: " + b"y" * 65_536), 431)
    yield _endless("a header without end", _POST + b"X: " + b"y" * 200_000)
    yield _endless("a name without end", _POST + b"y" * 200_000)
    yield _unfinished("headers without their end", _POST + b"X: y\r\n")
    yield from _hosts()
    yield from _expectations()


def _hosts() -> Iterator[Shape]:
    """Yield Host headers, which no application uses."""
    line = b"GET /health-check HTTP/1.1\r\n"
    yield _served("no Host", line + b"\r\n")
    yield _served("no Host in a request that is redirected", b"GET /health-check/ HTTP/1.1\r\n\r\n")
    yield _served("two Hosts", line + _HOST + b"Host: another\r\n\r\n")
    yield _served("an empty Host", line + b"Host:\r\n\r\n")
    yield _served("a Host that is none", line + b"Host: a b/c?d@e:[f\xff\r\n\r\n")
    yield _served(
        "a Host that is none in a request that is redirected",
        b"GET /health-check/ HTTP/1.1\r\nHost: [a b\r\n\r\n",
    )


def _expectations() -> Iterator[Shape]:
    """Yield Expect headers.

    An application that needs no body may answer before it comes. After an answer without 100
    Continue the connection is closed.
    """

    def of(*values: bytes) -> bytes:
        lines = b"".join(b"Expect: %b\r\n" % value for value in values)
        return _POST + lines + b"Content-Length: 5\r\n\r\nhello"

    for what, values in {
        "100 Continue": (b"100-continue",),
        "100 Continue in capitals": (b"100-CONTINUE",),
        "100 Continue and something unknown": (b"100-continue", b"42-tea"),
    }.items():
        yield Shape(
            id=f"a body that doesn't wait for {what}: answered",
            sent=of(*values),
            allowed=frozenset({(ANSWERED,), (ANSWERED, ANSWERED)}),
        )
    yield _served("100 Continue expected without a body", _GET + b"Expect: 100-continue\r\n\r\n")
    yield _served("an unknown expectation", of(b"42-tea"))
    yield _last(
        "100 Continue expected in HTTP/1.0",
        of(b"100-continue").replace(b"HTTP/1.1", b"HTTP/1.0"),
    )


def _methods() -> Iterator[Shape]:
    def of(method: bytes) -> bytes:
        return method + b" /health-check HTTP/1.1\r\n" + _HOST + b"\r\n"

    yield _served("TRACE", of(b"TRACE"))
    yield _served("OPTIONS of a path", of(b"OPTIONS"))
    yield _served("OPTIONS *", b"OPTIONS * HTTP/1.1\r\n" + _HOST + b"\r\n")
    yield _refused("CONNECT to an authority", b"CONNECT port:443 HTTP/1.1\r\n" + _HOST + b"\r\n")
    yield _refused("CONNECT to a path", of(b"CONNECT"))
    yield _refused("a method in lower case", of(b"get"))
    yield _refused("an unknown method", of(b"BREW"))
    yield _refused("a method that begins as a known one", of(b"GETS"))
    yield _refused("a method of 10 KiB", of(b"G" * 10_240))
    yield _refused("a method of another protocol", of(b"DESCRIBE"))


def _targets() -> Iterator[Shape]:
    def of(target: bytes) -> bytes:
        return b"GET " + target + b" HTTP/1.1\r\n" + _HOST + b"\r\n"

    yield _served("a target with scheme and host", of(b"http://another/health-check"))
    yield _refused("a target with scheme and host, without a path", of(b"http://another"))
    yield _refused("a target without a host", of(b"file:///etc/passwd"))
    yield _refused("a target that is an authority", of(b"port:443"))
    yield _refused("a target without a slash", of(b"health-check"))
    yield _refused("a target with a backslash", of(b"\\health-check"))
    yield _refused("a target of 64 KiB", of(b"/" + b"x" * 65_536), 431)
    yield _endless("a target without end", b"GET /" + b"x" * 200_000)
    yield _refused("a target in Latin-1", of(b"/\xe9"))
    yield _refused("a target in UTF-8", of("/é".encode()))
    yield _refused("a target with a NUL", of(b"/\0"))
    yield _refused("a target with DEL", of(b"/\x7f"))
    yield _refused("a target with an escape", of(b"/\x1b[31m"))
    yield _refused("a target with a tab", of(b"/a\tb"))
    yield _refused("a target with a space", of(b"/a b"))
    yield _served("a target with a fragment", of(b"/health-check#fragment"))
    yield _served("a target with ..", of(b"/../smuggler/../health-check"))
    yield _served("a target with an encoded ..", of(b"/%2e%2e/health-check"))
    yield _served("a target with an encoded NUL", of(b"/health-check%00"))
    yield _served("a target with half an encoding", of(b"/health-check%zz%f"))
    yield _served("a target with an encoded header", of(b"/%0d%0aX-Injected:%20y"))
    yield _served(
        "a redirected target with an encoded header", of(b"/metrics/?%0d%0aX-Injected:%20y")
    )
    yield _served("a redirected target with a line feed", of(b"/health-check%0a/"))
    yield _served("a target with two slashes", of(b"//another/health-check"))


def _lines() -> Iterator[Shape]:
    """Yield request lines and bytes before them."""

    def of(line: bytes) -> bytes:
        return line + b"\r\n" + _HOST + b"\r\n"

    good = of(b"GET /health-check HTTP/1.1")
    yield _refused("HTTP/0.9 without a version", b"GET /health-check\r\n\r\n")
    for version in ("HTTP/0.9", "HTTP/1.2", "HTTP/2.0", "HTTP/3.0", "HTTP/9.9", "HTTP/1.10"):
        yield _refused(f"version {version}", of(b"GET /health-check " + version.encode()))
    for version in ("HTTP/01.1", "HTTP/1", "HTTP/1.1.", "http/1.1", "HTTPS/1.1"):
        yield _refused(f"version {version}", of(b"GET /health-check " + version.encode()))
    yield _last("version RTSP/1.0", of(b"GET /health-check RTSP/1.0"))
    yield _refused("the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9))
    yield _served("two spaces before the target", of(b"GET  /health-check HTTP/1.1"))
    yield _served("two spaces before the version", of(b"GET /health-check  HTTP/1.1"))
    yield _refused("a space after the version", of(b"GET /health-check HTTP/1.1 "))
    yield _refused("tabs instead of spaces", of(b"GET\t/health-check\tHTTP/1.1"))
    yield _refused("no target", of(b"GET HTTP/1.1"))
    yield _refused("a request line that a line feed ends", good.replace(b"\r\n", b"\n", 1))
    yield _refused("a request line that a carriage return ends", good.replace(b"\r\n", b"\r", 1))
    yield _served("empty lines before the request", b"\r\n\r\n" + good)
    yield _served("line feeds before the request", b"\n\n" + good)
    yield _refused("spaces before the request", b"  " + good)
    yield _refused("a tab before the request", b"\t" + good)
    yield _refused("a NUL before the request", b"\0" + good)
    yield _refused("a byte order mark before the request", b"\xef\xbb\xbf" + good)
    yield _refused("noise", b"\xde\xad\xbe\xef what is this\r\n\r\n")
    yield _unfinished("a request line without its end", b"GET /health-check HTTP/1.1")


def _sequences() -> Iterator[Shape]:
    """Yield requests that are followed by other data or end the connection."""
    get = _GET + b"\r\n"
    upgrade = b"Connection: Upgrade\r\nUpgrade: %b\r\n"
    yield _served("three requests at once", get * 3, 3)
    yield _served("three requests with bodies at once", (_CHUNKED + _CHUNKS) * 3, 3)
    many = [(ANSWERED,) * number for number in range(1, _MOST_PIPELINED + 1)]
    yield Shape(
        id="a hundred requests at once: at most 33 answered, and the connection closed",
        sent=get * 100,
        allowed=frozenset(many + [(*answers, "503") for answers in many]),
        answers=_MOST_PIPELINED,
    )
    one = (ANSWERED,)
    for what, second in {
        "a malformed one": b"BREW /smuggled HTTP/1.1\r\n\r\n",
        "an ambiguous one": _SMUGGLED[:-2] + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "one of another version": b"GET /smuggled HTTP/2.0\r\n\r\n",
    }.items():
        yield Shape(
            id=f"a request and {what}: the first answered, and the connection closed",
            sent=get + second,
            allowed=frozenset({one, (*one, "400")}),
        )
    close = b"Connection: close\r\n\r\n"
    yield _last("a request after Connection: close", _GET + close + _SMUGGLED)
    yield _last(
        "a request after Connection: keep-alive, close",
        _GET + b"Connection: keep-alive, close\r\n\r\n" + _SMUGGLED,
    )
    yield _last("a request after HTTP/1.0", get.replace(b"HTTP/1.1", b"HTTP/1.0") + _SMUGGLED)
    yield _last(
        "a request after HTTP/1.0 and Connection: keep-alive",
        _GET.replace(b"HTTP/1.1", b"HTTP/1.0") + b"Connection: keep-alive\r\n\r\n" + _SMUGGLED,
    )
    yield _last("an upgrade to h2c", _GET + upgrade % b"h2c" + b"\r\n" + _SMUGGLED)
    yield _last(
        "an upgrade to h2c with a body",
        _POST + upgrade % b"h2c" + b"Content-Length: 5\r\n\r\nhello" + _SMUGGLED,
    )
    key = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    web_socket = upgrade % b"websocket" + key
    yield _last("an upgrade to a web socket", _GET + web_socket + b"\r\n" + _SMUGGLED)
    yield _served("an upgrade that Connection doesn't name", _GET + b"Upgrade: h2c\r\n\r\n")
    yield _served("Connection: upgrade without an upgrade", _GET + b"Connection: upgrade\r\n\r\n")


SHAPES = tuple(
    shape
    for shapes in (_lengths, _encodings, _chunks, _fields, _methods, _targets, _lines, _sequences)
    for shape in shapes()
)
