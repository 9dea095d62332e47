use http::Request;
use skydock_credentials::{CredentialError, CredentialErrorKind};

use crate::world::{World, cloud};

const ALLOWED: &str = "services: [ec2], regions: [eu-central-1]";

/// All sources of keys, each with the access key ID that the cloud must receive.
pub(crate) const SOURCES: &[(&str, &str)] = &[
    (
        "type: aws-sigv4, source: {files: {accessKeyIdFile: DIR/aws-id, secretAccessKeyFile: DIR/aws-secret}}",
        "AKIDEXAMPLE",
    ),
    (
        "type: aws-sigv4, source: {sharedFile: {file: DIR/shared, profile: ccm}}",
        "AKIDEXAMPLE",
    ),
    (
        "type: aws-sigv4, source: {imds: {endpoint: URL}}",
        "ASIAEXAMPLE",
    ),
    (
        "type: aws-sigv4, source: {webIdentity: {roleArn: 'arn:r', tokenFile: DIR/web-identity}}, sts: {endpoint: URL/sts}",
        "ASIASTS",
    ),
    (
        "type: aws-sigv4, source: {podIdentity: {url: URL/v1/credentials, tokenFile: DIR/pod-token}}",
        "ASIAEXAMPLE",
    ),
    (
        "type: aws-sigv4, source: {ecs: {url: URL/v2/credentials/x}}",
        "ASIAEXAMPLE",
    ),
    (
        "type: aws-sigv4, source: {imds: {endpoint: URL}}, sts: {endpoint: URL/sts}, assume: [{roleArn: 'arn:a'}, {roleArn: 'arn:b', externalIdFile: DIR/external-id, sourceArn: 'arn:c', sourceAccount: '1'}]",
        "ASIASTS",
    ),
];

pub(crate) fn yaml(source: &str) -> String {
    format!("{source}, {ALLOWED}")
}

async fn key_id(world: &World, source: &str) -> Result<String, CredentialError> {
    let credential = world.credential(&yaml(source));
    let sent = world.header(&*credential, "authorization").await?;
    let (_, id) = sent.split_once("AWS4-HMAC-SHA256 Credential=").unwrap();
    Ok(id.split('/').next().unwrap().to_owned())
}

#[tokio::test]
async fn every_source_provides_signing_keys() {
    for &(source, expected) in SOURCES {
        let world = World::new().await;
        assert_eq!(key_id(&world, source).await.unwrap(), expected, "{source}");
    }
}

#[tokio::test]
async fn the_region_of_the_instance_is_read_with_a_token() {
    for &(source, _) in SOURCES {
        let world = World::new().await;
        let region = world.instance_region(&yaml(source)).await.unwrap();
        let is_instance = source.contains("imds");
        let expected = is_instance.then_some("eu-central-1");
        assert_eq!(region.as_deref(), expected, "{source}");

        let asked = world.cloud.seen("/latest/");
        assert_eq!(!asked.is_empty(), is_instance, "{source}");
    }
}

#[tokio::test]
async fn a_chain_assumes_each_role_with_the_previous_keys() {
    let world = World::new().await;
    key_id(&world, SOURCES[6].0).await.unwrap();
    let chain = world.cloud.seen("/sts/");
    let found: Vec<_> = chain
        .iter()
        .map(|seen| (seen.field("RoleArn"), seen.field("ExternalId")))
        .collect();
    let expected =
        [("arn:a", ""), ("arn:b", cloud::EXTERNAL_ID)].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(found, expected);
    assert!(
        chain[0]
            .header("authorization")
            .contains("Credential=ASIAEXAMPLE/")
    );
    assert!(
        chain[1]
            .header("authorization")
            .contains("Credential=ASIASTS/")
    );
    assert!(
        chain[1]
            .header("x-amz-security-token")
            .starts_with("sts-session&<-issued-"),
        "entities are read"
    );
    assert_eq!(
        (
            chain[1].header("x-amz-source-arn"),
            chain[1].header("x-amz-source-account")
        ),
        ("arn:c".into(), "1".into())
    );
    assert_eq!(chain[0].field("DurationSeconds"), "3600");
}

#[tokio::test]
async fn an_error_of_sts_names_its_code() {
    let world = World::new().await;
    world.write("web-identity", "another-token-of-nobody");
    let error = key_id(&world, SOURCES[3].0).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "credential `c`: its issuer 127.0.0.1 answered 403 (AccessDenied): check its login and its URL"
    );
    assert_eq!(error.kind(), CredentialErrorKind::Denied);
}

#[tokio::test]
async fn rejects_invalid_services_regions_and_durations() {
    let world = World::new().await;
    for (allowed, said) in [
        ("services: [], regions: [eu-central-1]", "must not be empty"),
        ("services: [ec2], regions: []", "is empty"),
        (
            "services: [sts], regions: [eu-central-1]",
            "returns credentials",
        ),
        ("services: [s3], regions: [eu-central-1]", "another way"),
        (
            "services: [ec2], regions: [europe]",
            "is not a valid region",
        ),
        (
            "services: [ec2], regions: [eu-central-1], assume: [{roleArn: a, duration: 13h}]",
            "15m to 12h",
        ),
    ] {
        let error = world
            .try_credential(&format!("{}, {allowed}", SOURCES[0].0))
            .unwrap_err();
        assert!(error.to_string().contains(said), "{allowed}: {error}");
    }
}

#[tokio::test]
async fn dummy_keys_of_the_guest_do_not_reach_the_cloud() {
    let world = World::new().await;
    let credential = world.credential(&yaml(SOURCES[0].0));
    let request = Request::post(format!("{}/cloud/?x=1", world.cloud.url))
        .header(
            "authorization",
            "AWS4-HMAC-SHA256 Credential=DUMMY/20200101/eu-central-1/ec2/aws4_request, SignedHeaders=host, Signature=0",
        )
        .header("x-amz-date", "20200101T000000Z")
        .header("x-amz-security-token", "dummy");
    let answer = world
        .send(&*credential, request, "Action=DescribeInstances")
        .await
        .unwrap();
    assert_eq!(answer.body, "things");
    let seen = world.cloud.last();
    assert!(
        !format!("{:?}", seen.headers)
            .to_lowercase()
            .contains("dummy")
    );
    assert!(!seen.header("x-amz-date").starts_with("2020"));
    assert_eq!(
        seen.header("host"),
        world.cloud.url.strip_prefix("http://").unwrap()
    );
    assert_eq!(seen.body, "Action=DescribeInstances");
    let request = Request::post(format!("{}/cloud/", world.cloud.url));
    let error = world
        .send(&*credential, request, "Action=GetSessionToken")
        .await
        .unwrap_err();
    assert_eq!(error.kind(), CredentialErrorKind::SecretRequest);
}
