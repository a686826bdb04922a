// Making elements. Text only ever enters the page through these as text nodes and attributes, never as markup.

const svg_namespace = 'http://www.w3.org/2000/svg';

/**
 * A new element. A function among the attributes listens to the event of that name; true is an empty attribute; false,
 * null and undefined are none.
 */
export function element(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
        if (typeof value === 'function') node.addEventListener(name, value);
        else if (value === true) node.setAttribute(name, '');
        else if (value !== false && value != null) node.setAttribute(name, value);
    }
    node.append(...children.filter((child) => child != null && child !== false));
    return node;
}

/** One of the <symbol>s of index.html. */
export function icon(name) {
    const svg = document.createElementNS(svg_namespace, 'svg');
    svg.setAttribute('class', 'icon');
    svg.setAttribute('aria-hidden', 'true');
    const use = document.createElementNS(svg_namespace, 'use');
    use.setAttribute('href', `#icon-${name}`);
    svg.append(use);
    return svg;
}

export function icon_button(icon_name, label, on_click, attributes = {}) {
    return element(
        'button',
        { type: 'button', class: 'icon-button', 'aria-label': label, title: label, click: on_click, ...attributes },
        icon(icon_name),
    );
}

/**
 * Copies text, and shows on the button for a moment that it did. Null where the browser gives no clipboard: to pages of
 * plain http from another host.
 */
export function copy_button(label, text_of) {
    if (!navigator.clipboard) return null;
    const button = icon_button('copy', label, async () => {
        try {
            await navigator.clipboard.writeText(text_of());
        } catch {
            return;
        }
        button.replaceChildren(icon('check'));
        setTimeout(() => button.replaceChildren(icon('copy')), 1500);
    });
    return button;
}

/** Grows a textarea with its text where CSS does not yet; its max-height bounds it. */
export function fit_height(textarea) {
    if (CSS.supports('field-sizing', 'content')) return;
    textarea.style.height = 'auto';
    textarea.style.height = `${textarea.scrollHeight}px`;
}
