// Old syntax only: this file has to be understood by the versions that it turns away.

/** A sentence for the person, or an empty text when this Node will do. The range is that of our build tool. */
export function nodeProblem(version) {
  const numbers = version.split('.').map(Number);
  const major = numbers[0];
  const minor = numbers[1];
  const fits = (major === 20 && minor >= 19) || (major === 22 && minor >= 12) || major > 22;
  if (fits) return '';
  return (
    'Onsale needs Node 20.19 or later (or 22.12 or later; 24 is recommended), and this is ' +
    version +
    '. Install it from https://nodejs.org or with your version manager, then run the command again.'
  );
}

/** Ends the process with the sentence unless this Node will do. */
export function checkNode() {
  const problem = nodeProblem(process.versions.node);
  if (problem) {
    console.error(problem);
    process.exit(1);
  }
}
