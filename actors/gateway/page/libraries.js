// Libraries that few messages need, loaded when the first of them does. Each is a classic script with one global.

const globals = { katex: 'katex', highlight: 'hljs' };
const loading = new Map();

/** Resolves to the library; rejects where the server does not give it. */
export function load(name) {
    if (!loading.has(name)) loading.set(name, add_script(name));
    return loading.get(name);
}

function add_script(name) {
    const script = document.createElement('script');
    script.src = `/page/${name}.js`;
    const loaded = new Promise((resolve, reject) => {
        script.addEventListener('load', () => resolve(window[globals[name]]));
        script.addEventListener('error', () => {
            loading.delete(name); // so that the next message tries again
            reject(new Error(`${script.src} could not be loaded.`));
        });
    });
    document.head.append(script);
    return loaded;
}
