// Targets in the form that the contract calls packed, and those of the sets that were lent last.
import type { PackedTargets } from "skydock:provider/node-sets@0.1.1";

import type { AddressKind, NodeAddress, Target } from "../index.js";

/** Number of sets that are kept. */
const KEPT = 2;
/** Number of nodes of the largest set that is kept. */
const LARGEST = 10_000;
/** In place of the length of an absent text. */
const ABSENT = 0xffff_ffff;
/** Numbered as in the contract. */
const KINDS: AddressKind[] = ["Hostname", "InternalIP", "ExternalIP", "InternalDNS", "ExternalDNS"];

/** Returns the targets. */
export function unpack({ numbers, texts }: PackedTargets): Target[] {
  const bytes = new TextEncoder().encode(texts);
  // Lengths are those in UTF-8. With ASCII, texts do not need to be decoded one by one.
  const isAscii = bytes.length === texts.length;
  const decoder = new TextDecoder();
  let [at, begin] = [0, 0];
  const number = () => numbers[at++] ?? 0;
  const option = () => {
    const length = number();
    if (length === ABSENT) {
      return undefined;
    }
    const end = begin + length;
    const text = isAscii ? texts.slice(begin, end) : decoder.decode(bytes.subarray(begin, end));
    begin = end;
    return text;
  };
  const text = () => option() ?? "";
  const targets: Target[] = [];
  while (at < numbers.length) {
    const [name, providerId, zone] = [text(), option(), option()];
    const addresses: NodeAddress[] = [];
    for (let left = number(); left > 0; left--) {
      addresses.push({ kind: KINDS[number()] ?? "Hostname", address: text() });
    }
    targets.push({ name, providerId, zone, addresses });
  }
  return targets;
}

/** Targets by their fingerprints; those used last are at the end. */
const sets = new Map<bigint, Target[]>();

/** Returns the targets with a fingerprint, in a list of the plugin's own. They are read unless they are kept. */
export function targetsOf(fingerprint: bigint, read: () => Target[]): Target[] {
  const found = sets.get(fingerprint);
  const targets = found ?? read();
  if (targets.length <= LARGEST) {
    sets.delete(fingerprint);
    sets.set(fingerprint, targets);
  }
  const [oldest] = sets.keys();
  if (sets.size > KEPT && oldest !== undefined) {
    sets.delete(oldest);
  }
  return [...targets];
}
