#!/usr/bin/env python3
"""Receives OTLP traces on loopback, by gRPC and by HTTP, and writes one JSON line per span.

An oracle for exporters: it decodes with opentelemetry-proto, not with our code.

    python3 otlp_receiver.py OUT.jsonl [SECONDS]

Prints `PORTS <gRPC> <HTTP>` when it listens; stops after SECONDS (default 60).
"""
import json
import sys
import threading
import time
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as rpc


def plain(value):
    """The Python value of an OTLP AnyValue, and which of its kinds it was."""
    kind = value.WhichOneof("value")
    return [kind, getattr(value, kind)]


class Log:
    """Where the spans are written, from any thread."""

    def __init__(self, out):
        self.out = out
        self.lock = threading.Lock()

    def write(self, request, transport, headers):
        own = {k.lower(): v for k, v in headers if k.lower() == "authorization" or k.lower().startswith("x-")}
        with self.lock:
            for resource_spans in request.resource_spans:
                resource = {a.key: plain(a.value) for a in resource_spans.resource.attributes}
                for scope_spans in resource_spans.scope_spans:
                    for span in scope_spans.spans:
                        written = line(span, scope_spans.scope, resource, transport) | {"headers": own}
                        self.out.write(json.dumps(written) + "\n")
            self.out.flush()


def line(span, scope, resource, transport):
    return {
        "transport": transport,
        "trace_id": span.trace_id.hex(),
        "span_id": span.span_id.hex(),
        "parent_span_id": span.parent_span_id.hex(),
        "name": span.name,
        "kind": span.kind,
        "start": span.start_time_unix_nano,
        "end": span.end_time_unix_nano,
        "status": span.status.code,
        "message": span.status.message,
        "attributes": {a.key: plain(a.value) for a in span.attributes},
        "scope": scope.name,
        "resource": resource,
    }


class Grpc(rpc.TraceServiceServicer):
    def __init__(self, log):
        self.log = log

    def Export(self, request, context):
        self.log.write(request, "grpc", context.invocation_metadata())
        return service.ExportTraceServiceResponse()


def http_handler(log):
    class Http(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            wanted = ("/v1/traces", "application/x-protobuf")
            ok = (self.path, self.headers["Content-Type"]) == wanted
            if ok:
                log.write(service.ExportTraceServiceRequest.FromString(body), "http", self.headers.items())
            answer = service.ExportTraceServiceResponse().SerializeToString() if ok else b""
            self.send_response(200 if ok else 404)
            self.send_header("Content-Type", wanted[1])
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args):
            pass

    return Http


def main():
    path = sys.argv[1]
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60
    with open(path, "w") as out:
        log = Log(out)
        server = grpc.server(futures.ThreadPoolExecutor(4))
        rpc.add_TraceServiceServicer_to_server(Grpc(log), server)
        grpc_port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        http = ThreadingHTTPServer(("127.0.0.1", 0), http_handler(log))
        threading.Thread(target=http.serve_forever, daemon=True).start()
        print("PORTS", grpc_port, http.server_address[1], flush=True)
        time.sleep(seconds)
        server.stop(1)
        http.shutdown()


if __name__ == "__main__":
    main()
