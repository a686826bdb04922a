// What a person may set, and the dialogs. Settings stay in this browser; an empty field is the server's choice.

import { has_api_key, set_api_key } from './api.js';

const storage_name = 'rondo-settings';

function stored() {
    try {
        return JSON.parse(localStorage.getItem(storage_name)) ?? {};
    } catch {
        return {};
    }
}

const number_or_nothing = (text) => (text.trim() === '' ? undefined : Number(text));

export class Settings {
    constructor(dialog) {
        const { temperature, max_tokens, system } = stored();
        this.temperature = typeof temperature === 'number' ? temperature : undefined;
        this.max_tokens = typeof max_tokens === 'number' ? max_tokens : undefined;
        this.system = typeof system === 'string' ? system : '';
        this.dialog = dialog;
        this.form = dialog.querySelector('form');
    }

    /** Resolves when the dialog is closed; what was saved holds from the next message on. */
    async edit() {
        const { temperature, max_tokens, system } = this.form.elements;
        temperature.value = this.temperature ?? '';
        max_tokens.value = this.max_tokens ?? '';
        system.value = this.system;
        if (await answer_of(this.dialog)) this.#take();
    }

    #take() {
        const { temperature, max_tokens, system } = this.form.elements;
        this.temperature = number_or_nothing(temperature.value);
        this.max_tokens = number_or_nothing(max_tokens.value);
        this.system = system.value.trim();
        localStorage.setItem(
            storage_name,
            JSON.stringify({ temperature: this.temperature, max_tokens: this.max_tokens, system: this.system }),
        );
    }
}

/** Opens a dialog; resolves to whether its main button closed it. Escape would leave the value of last time. */
function answer_of(dialog) {
    dialog.returnValue = '';
    dialog.querySelector('[data-cancel]').onclick = () => dialog.close('');
    if (!dialog.open) dialog.showModal();
    return new Promise((resolve) => {
        dialog.addEventListener('close', () => resolve(dialog.returnValue === 'save'), { once: true });
    });
}

/** Asks for the API key; resolves to whether one was given. */
export async function ask_api_key(dialog) {
    const { key } = dialog.querySelector('form').elements;
    key.value = '';
    dialog.querySelector('#key-refused').hidden = !has_api_key();
    const is_given = (await answer_of(dialog)) && key.value.trim() !== '';
    if (is_given) set_api_key(key.value.trim());
    key.value = '';
    return is_given;
}

/** Asks before something that cannot be taken back. */
export function confirm(dialog, question) {
    dialog.querySelector('p').textContent = question;
    return answer_of(dialog);
}
