// The operator's configuration.
import { Invalid, type Settings } from "@skydock/sdk";

/** The file of `cloudConfig`. There is no token in it: the host adds that to each request. */
export interface Config {
  /** URL of the cloud with its port, without a path. */
  readonly url: string;
  /** The cluster's region. Servers of other regions are not its nodes. */
  readonly region: string;
}

/** Reads and checks the configuration. */
export function parse({ cloudConfig = "", cloudConfigPath = "the cloud configuration" }: Settings): Config {
  const invalid = (what: string) => new Invalid(`${cloudConfigPath}: ${what}`);
  let read: unknown;
  try {
    read = JSON.parse(cloudConfig);
  } catch {
    // The reason quotes the text.
    throw invalid("expected JSON, as in {\"url\": \"https://cloud.example:443\", \"region\": \"north\"}");
  }
  if (typeof read !== "object" || read === null || Array.isArray(read)) {
    throw invalid("expected an object with `url` and `region`");
  }
  const { url, region, ...others } = read as Record<string, unknown>;
  if (Object.keys(others).length > 0) {
    throw invalid("expected no fields besides `url` and `region`");
  }
  if (typeof url !== "string" || !/^https?:\/\/[^/?#@]+:\d+$/.test(url) || !isUrl(url)) {
    throw invalid("`url`: expected a URL with a port and no path, as in `https://cloud.example:443`");
  }
  if (typeof region !== "string" || region === "") {
    throw invalid("`region`: expected the name of a region");
  }
  return { url, region };
}

/** `URL.canParse` is not known to the engine of components. */
function isUrl(text: string): boolean {
  try {
    return new URL(text) !== undefined;
  } catch {
    return false;
  }
}
