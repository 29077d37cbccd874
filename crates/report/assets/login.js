// A token in the address after `#`, which no server and no log sees, is entered and taken out of the address.
document.addEventListener('DOMContentLoaded', () => {
  const token = new URLSearchParams(location.hash.slice(1)).get('token');
  if (!token) return;
  history.replaceState(null, '', location.pathname);
  document.getElementById('token').value = token;
  document.querySelector('form.login').requestSubmit();
});
