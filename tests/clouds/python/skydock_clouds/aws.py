"""AWS on loopback: moto, in one process. `python -m skydock_clouds.aws --home DIR`."""

import argparse
import json
import os
import signal
import threading
import time

from skydock_clouds import life, serve

THREADS = 16


def one_at_a_time(application):
    """moto goes through lists that other threads change meanwhile, and answers with error 500 then."""
    lock = threading.RLock()

    def answer(environ, start_response):
        with lock:
            return application(environ, start_response)

    return answer


def main():
    parser = argparse.ArgumentParser(prog="skydock_clouds.aws")
    parser.add_argument("--home", required=True)
    parser.add_argument("--detach", action="store_true", help="live on when standard input ends")
    parser.add_argument("--ports", default="{}", help="JSON: the port as that of aws, if it is not to be chosen freely")
    arguments = parser.parse_args()

    def end(*_):
        if not arguments.detach:
            life.remove(arguments.home)
        os._exit(0)

    life.detach() if arguments.detach else life.end_with_stdin(end)
    signal.signal(signal.SIGTERM, end)
    began = time.monotonic()
    listener = serve.listen(json.loads(arguments.ports).get("aws", 0))
    # moto calls itself with boto3. The images of EC2's catalogue are 100 MB that nobody asks for.
    os.environ.update(
        AWS_ACCESS_KEY_ID="moto", AWS_SECRET_ACCESS_KEY="moto", AWS_DEFAULT_REGION="us-east-1", AWS_EC2_METADATA_DISABLED="true",
        MOTO_EC2_LOAD_DEFAULT_AMIS="false",
    )
    from moto.ec2.models.security_groups import SecurityGroupBackend
    from moto.server import DomainDispatcherApplication, create_backend_app

    # 60 rules of a group are what AWS begins with; whoever has more than some 30 load balancers in a cluster has the quota raised.
    SecurityGroupBackend._verify_group_will_respect_rule_count_limit = lambda *_, **__: None

    from skydock_clouds import like_aws

    like_aws.correct()
    application = one_at_a_time(DomainDispatcherApplication(create_backend_app))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with open(os.path.join(arguments.home, "ready.tmp"), "w") as out:
        json.dump({"urls": {"aws": url}, "pid": os.getpid(), "seconds": round(time.monotonic() - began, 1)}, out)
    os.rename(os.path.join(arguments.home, "ready.tmp"), os.path.join(arguments.home, "ready.json"))
    serve.serve(application, listener, os.path.join(arguments.home, "access.log"), THREADS)


main()
