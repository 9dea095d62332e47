use http::Request;
use skydock_clouds::Aws;
use skydock_credentials::{Credential, Issuer};

use crate::world::{World, issuer::Plain};

const YAML: &str = "type: aws-sigv4, source: {files: {accessKeyIdFile: DIR/aws-id, secretAccessKeyFile: DIR/aws-secret}}, services: [ec2, elasticloadbalancing], regions: [eu-central-1]";

/// Sends an operator's request without authentication, to a moto that does not check it yet.
async fn operator(url: &str, form: &str, service: &str) -> String {
    let request = Request::post(format!("{url}/"))
        .header("content-type", "application/x-www-form-urlencoded")
        .header("authorization", format!("AWS4-HMAC-SHA256 Credential=x/20200101/us-east-1/{service}/aws4_request, SignedHeaders=host, Signature=0"))
        .body(form.to_owned().into())
        .unwrap();
    let answer = Plain::new().send(request).await.unwrap();
    assert_eq!(answer.status(), 200, "{answer:?}");
    String::from_utf8(answer.body().to_vec()).unwrap()
}

async fn moto_api(url: &str, path: &str, body: &str) {
    let request = Request::post(format!("{url}/moto-api/{path}"))
        .body(body.to_owned().into())
        .unwrap();
    assert_eq!(
        Plain::new().send(request).await.unwrap().status(),
        200,
        "{path}"
    );
}

async fn ask(
    world: &World,
    url: &str,
    credential: &dyn Credential,
    service: &str,
    form: &str,
    query: &str,
) -> (u16, String) {
    let dummy = format!(
        "AWS4-HMAC-SHA256 Credential=x/20200101/eu-central-1/{service}/aws4_request, SignedHeaders=host, Signature=0"
    );
    let request = Request::post(format!("{url}/{query}"))
        .header(
            "content-type",
            "application/x-www-form-urlencoded; charset=utf-8",
        )
        .header("authorization", dummy);
    let answer = world.send(credential, request, form).await.unwrap();
    (answer.status.as_u16(), answer.body)
}

fn between<'a>(text: &'a str, tag: &str) -> &'a str {
    text.split(&format!("<{tag}>"))
        .nth(1)
        .unwrap()
        .split("</")
        .next()
        .unwrap()
}

#[tokio::test]
async fn moto_accepts_signatures_for_ec2_and_elbv2() {
    let aws = Aws::start().await.unwrap();
    let url = aws.url();
    operator(
        url,
        "Action=CreateUser&Version=2010-05-08&UserName=ccm",
        "iam",
    )
    .await;
    let policy = "%7B%22Version%22%3A%222012-10-17%22%2C%22Statement%22%3A%5B%7B%22Effect%22%3A%22Allow%22%2C%22Action%22%3A%5B%22ec2%3ADescribe%2A%22%2C%22elasticloadbalancing%3A%2A%22%2C%22sts%3A%2A%22%5D%2C%22Resource%22%3A%22%2A%22%7D%5D%7D";
    operator(
        url,
        &format!("Action=PutUserPolicy&Version=2010-05-08&UserName=ccm&PolicyName=a&PolicyDocument={policy}"),
        "iam",
    )
    .await;
    let made = operator(
        url,
        "Action=CreateAccessKey&Version=2010-05-08&UserName=ccm",
        "iam",
    )
    .await;
    let world = World::new().await;
    world.write("aws-id", between(&made, "AccessKeyId"));
    world.write("aws-secret", between(&made, "SecretAccessKey"));
    let credential = world.credential(YAML);
    // From here on, moto verifies the signature of each request.
    moto_api(url, "reset-auth", "0").await;
    // moto hashes a re-encoded form, so spaces must be `+` and tildes must not be encoded. AWS
    // hashes the form as sent.
    let instances = "Action=DescribeInstances&Version=2016-11-15&Filter.1.Name=tag%3Aa+b&Filter.1.Value.1=%C3%A9%2F~%2B";
    let (status, body) = ask(&world, url, &*credential, "ec2", instances, "").await;
    assert_eq!(status, 200, "{body}");
    assert!(body.contains("DescribeInstancesResponse"), "{body}");
    let balancers = "Action=DescribeLoadBalancers&Version=2015-12-01";
    let (status, body) = ask(
        &world,
        url,
        &*credential,
        "elasticloadbalancing",
        balancers,
        "",
    )
    .await;
    assert_eq!(status, 200, "{body}");
    assert!(body.contains("DescribeLoadBalancersResponse"), "{body}");
    // A query that is not in canonical order, in addition to the form.
    let vpcs = "Action=DescribeVpcs&Version=2016-11-15";
    let (status, body) = ask(
        &world,
        url,
        &*credential,
        "ec2",
        vpcs,
        "?b=2&%7ea=a+b%2fc&B",
    )
    .await;
    assert_eq!(status, 200, "{body}");
    // The policy of the user does not allow this.
    let (status, body) = ask(
        &world,
        url,
        &*credential,
        "ec2",
        "Action=CreateVpc&Version=2016-11-15&CidrBlock=10.0.0.0%2F16",
        "",
    )
    .await;
    assert_eq!(status, 403, "{body}");
    assert!(body.contains("AccessDenied"), "{body}");
    world.write("aws-secret", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYNOTTHEKEY");
    let wrong = world.credential(YAML);
    let (status, body) = ask(&world, url, &*wrong, "ec2", instances, "").await;
    assert_eq!(status, 401, "{body}");
    assert!(body.contains("AuthFailure"), "{body}");
}
