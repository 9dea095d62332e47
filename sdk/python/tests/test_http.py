import asyncio
import contextlib
import threading
import time
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import skydock
import skydock.testing
from skydock import http
from skydock._failure import failure
from skydock._said import sentence


class Handler(BaseHTTPRequestHandler):
    """Answers with what it was asked."""

    def do_GET(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length)
        if self.path.startswith("/lost"):
            return
        if self.path == "/slow":
            time.sleep(0.3)
        text = f"{self.command} {self.path} {self.headers.get('x-token')} ".encode() + body
        with contextlib.suppress(BrokenPipeError):
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    do_POST = do_DELETE = do_GET

    def log_message(self, *_: object) -> None:
        """Says nothing."""


class NativeTest(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.url = f"http://127.0.0.1:{server.server_port}"

    async def test_a_request_has_query_headers_and_body(self) -> None:
        with skydock.testing.Host(headers={"x-token": "t"}) as host:
            answer = await http.post(f"{self.url}/a", params={"b": "c d"}, json={"e": 1})
        self.assertEqual((answer.status, answer.text()), (200, 'POST /a?b=c+d t {"e":1}'))
        self.assertEqual([it.method for it in host.requests], ["POST"])
        self.assertEqual((await http.delete(self.url)).text(), "DELETE / None ")

    async def test_a_content_type_of_the_caller_is_the_only_one(self) -> None:
        with skydock.testing.Host(http=lambda _: http.Response(204)) as host:
            await http.patch(self.url, json={}, headers={"Content-Type": "application/merge-patch+json"})
            await http.patch(self.url, json={})
        types = [[value for name, value in it.headers if name.lower() == "content-type"] for it in host.requests]
        self.assertEqual(types, [["application/merge-patch+json"], ["application/json"]])

    async def test_a_request_can_be_sent_again(self) -> None:
        request = http.Request("GET", self.url)
        with skydock.testing.Host(headers={"x-token": "t"}, http=lambda _: http.Response(503)) as host:
            await http.send(request)
            await http.send(request)
        self.assertEqual([it.headers for it in host.requests], [[("x-token", "t")]] * 2)
        self.assertEqual(request.headers, [])

    async def test_many_requests_are_in_flight(self) -> None:
        begin = time.monotonic()
        answers = await asyncio.gather(*[http.get(f"{self.url}/slow") for _ in range(5)])
        self.assertEqual([it.status for it in answers], [200] * 5)
        self.assertLess(time.monotonic() - begin, 1.2)

    async def test_a_lost_answer_is_unavailable(self) -> None:
        for url in (f"{self.url}/lost?secret", "http://127.0.0.1:1/"):
            with self.assertRaises(skydock.Unavailable) as raised:
                await http.get(url)
            self.assertNotIn("secret", str(raised.exception))

    async def test_a_request_ends_before_the_call(self) -> None:
        with skydock.testing.Host(deadline=1.1), self.assertRaises(skydock.Unavailable):
            await http.get(f"{self.url}/slow")
        with skydock.testing.Host(deadline=0.5) as host, self.assertRaises(skydock.Unavailable):
            await http.get(f"{self.url}/slow")
        self.assertEqual(host.requests, [])
        with self.assertRaises(skydock.Unavailable):
            await http.get(f"{self.url}/slow", timeout=0.1)

    async def test_a_test_can_answer(self) -> None:
        with skydock.testing.Host(http=lambda request: http.Response(404, body=request.url.encode())):
            answer = await http.get("https://cloud.example/a")
        self.assertEqual((answer.status, answer.text()), (404, "https://cloud.example/a"))

    async def test_urls_that_cannot_be_requested_are_internal(self) -> None:
        for url in ("", "/v1", "cloud.example/v1", "ftp://a/", "https://", "https://:80/", "https://é/", "https://a/b c"):
            with self.subTest(url), self.assertRaises(skydock.Internal):
                await http.get(url)
        with self.assertRaises(skydock.Internal) as raised:
            await http.get("https://user:secret@a/")
        self.assertNotIn("secret", str(raised.exception))


class ResponseTest(unittest.TestCase):
    def test_each_status_is_an_error(self) -> None:
        table: dict[type[skydock.CloudError], tuple[int, ...]] = {
            skydock.Denied: (401, 402, 403, 407),
            skydock.NotFound: (404, 410),
            skydock.Conflict: (409, 412, 423),
            skydock.Throttled: (429,),
            skydock.Unavailable: (408, 425, 500, 503, 599),
            skydock.Invalid: (400, 405, 422),
            skydock.Internal: (200, 302),
        }
        for error, statuses in table.items():
            for status in statuses:
                self.assertIs(type(http.Response(status).error()), error, status)

    def test_a_date_that_does_not_exist_is_no_delay(self) -> None:
        for date in ("Thu, 01 Jan 99999999999999999999 00:00:00 GMT", "Thu, 01 Jan 2030 99:00:00 GMT", "soon", "3.5", "-1"):
            self.assertIsNone(http.retry_after(date, None), date)

    def test_json_with_too_many_levels_is_an_error(self) -> None:
        deep = http.Response(500, [], b"[" * 60_000)
        self.assertEqual(deep.error(), skydock.Unavailable("HTTP 500"))
        with self.assertRaises(skydock.Internal):
            deep.json()

    def test_retry_after_is_a_delay(self) -> None:
        def throttled(*headers: tuple[str, str]) -> skydock.CloudError:
            return http.Response(503, list(headers)).error()

        self.assertEqual(throttled(("Retry-After", "7")), skydock.Throttled("HTTP 503", retry_after=7.0))
        dates = ("date", "Sun, 06 Nov 1994 08:49:30 GMT"), ("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")
        self.assertEqual(throttled(*dates), skydock.Throttled("HTTP 503", retry_after=7.0))
        for value in ("soon", "-1", "1.5", ""):
            self.assertEqual(throttled(("retry-after", value)), skydock.Unavailable("HTTP 503"), value)

    def test_an_error_has_the_message_of_the_cloud(self) -> None:
        for body in (
            '{"error": {"code": 404, "message": "no such thing"}}',
            '{"error": "no such thing"}',
            '{"message": "no such\\n thing"}',
            '{"badRequest": {"code": 400, "message": "no such thing"}}',
            '{"errors": [{"status": 404, "detail": "no such thing"}]}',
            "<Response><Error><Code>X</Code><Message>no such thing</Message></Error></Response>",
            "<a:faultstring lang='en'>no such thing</a:faultstring>",
        ):
            self.assertEqual(str(http.Response(404, body=body.encode()).error()), "HTTP 404: no such thing", body)
        for body in ("", "{}", "[]", "{", '{"message": 1}', "<html>", "no such thing"):
            self.assertEqual(str(http.Response(404, body=body.encode()).error()), "HTTP 404", body)
        self.assertEqual(sentence("text/plain", b"no \xe2\x80\xaesuch thing\n"), "no such thing")
        self.assertEqual(len(sentence("text/plain", b"x" * 1000) or ""), 300)

    def test_codes_of_the_host_are_errors(self) -> None:
        self.assertIsInstance(failure("GET u", "HttpRequestDenied"), skydock.Denied)
        dns = failure("GET u", "DnsTimeout")
        self.assertEqual(dns, skydock.Unavailable("GET u: dns-timeout"))
        self.assertEqual(failure("GET u", "InternalError", "why"), skydock.Internal("GET u: internal-error: why"))

    def test_a_segment_is_encoded(self) -> None:
        self.assertEqual(http.segment("a/b c"), "a%2Fb%20c")
        for text in ("", ".", ".."):
            with self.assertRaises(skydock.Invalid):
                http.segment(text)
